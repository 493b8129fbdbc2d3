package nbd

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"
)

// What goes into the send queue comes out in order and unchanged while the
// arena wraps, the socket takes bytes as it likes, and slots are used again.
func TestSendQueue(t *testing.T) {
	c := &conn{}
	c.prepare()
	rnd := rand.New(rand.NewPCG(1, 2))
	var want []byte
	wraps := 0
	for i := range 200000 {
		if s := c.tryTake(0); s != nil && rnd.IntN(3) > 0 {
			before := c.out.end
			b := c.out.header()
			if c.out.end < before && !c.out.empty() {
				wraps++
			}
			n := 1 + rnd.IntN(40)
			if rnd.IntN(4) == 0 {
				n = maxReplyHeader
			}
			for k := range n {
				b[k] = byte(i + k)
			}
			want = append(want, b[:n]...)
			s.to(slotSending)
			c.out.putHeader(n, s, true)
		} else if s != nil {
			c.giveUp(s)
		}
		if rnd.IntN(3) > 0 && i%5000 > 500 {
			continue // let it fill up now and then
		}
		k := c.out.gather(c.iov[:])
		total := 0
		for _, v := range c.iov[:k] {
			total += int(v.Len)
		}
		if total == 0 {
			continue
		}
		n := 1 + rnd.IntN(total)
		var got []byte
		for j := c.out.head; len(got) < n; j++ {
			got = append(got, c.out.ring[j%sendQueueSize].data...)
		}
		if !bytes.Equal(got[:n], want[:n]) {
			t.Fatalf("round %d: bytes differ", i)
		}
		c.sent(n)
		want = want[n:]
	}
	if wraps == 0 {
		t.Error("the arena never wrapped")
	}
	c.discard()
	if len(c.free) != MaxRequests {
		t.Errorf("%d slots are free in the end", len(c.free))
	}
}

// Headers that lie side by side share an iovec, also when the first is sent in
// part; data stands alone; the number of iovecs is bounded.
func TestGather(t *testing.T) {
	c := &conn{}
	c.prepare()
	lens := func(limit int) (l []int) {
		for _, v := range c.iov[:c.out.gather(c.iov[:limit])] {
			l = append(l, int(v.Len))
		}
		return l
	}
	put := func(n int, data []byte) {
		s := c.tryTake(0)
		s.to(slotSending)
		c.out.header()
		c.out.putHeader(n, s, data == nil)
		if data != nil {
			s.req.Buf.Data = data
			c.out.putData(s)
		}
	}
	put(16, nil)
	put(16, nil)
	put(16, make([]byte, 4096))
	put(20, nil)
	check := func(limit int, want ...int) {
		t.Helper()
		if got := lens(limit); !slices.Equal(got, want) {
			t.Errorf("iovecs of %v bytes, want %v", got, want)
		}
	}
	check(maxIovecs, 48, 4096, 20)
	check(2, 48, 4096)
	c.sent(5)
	check(maxIovecs, 43, 4096, 20)
	c.sent(43 + 96)
	check(maxIovecs, 4000, 20)
	c.sent(4020)
	check(maxIovecs)
	if len(c.free) != MaxRequests {
		t.Errorf("%d slots are free", len(c.free))
	}
}
