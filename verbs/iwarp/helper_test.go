package iwarp

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"go.uber.org/goleak"

	"rbd/verbs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// side is one QP with what it needs.
type side struct {
	dev  *device
	pd   verbs.PD
	cq   *cq
	qp   *qp
	id   verbs.CMID // nil for a QP without a CMID
	mr   verbs.MR
	mem  []byte
	ends chan error // gets the cause of the end; for a QP without a CMID
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

const (
	allRights = verbs.AccessLocalWrite | verbs.AccessRemoteRead | verbs.AccessRemoteWrite
	qpDepth   = 256
)

var qpCap = verbs.QPCap{MaxSendWR: qpDepth, MaxRecvWR: qpDepth, MaxSendSGE: 4, MaxRecvSGE: 4, MaxInlineData: 128}

// newSide makes everything but the QP, with a region of n bytes.
func newSide(t testing.TB, d *device, handler func([]verbs.WC), n int) *side {
	t.Helper()
	s := &side{dev: d, ends: make(chan error, 1)}
	var err error
	s.pd, err = d.AllocPD()
	must(t, err)
	c, err := d.CreateCQ(verbs.CQAttr{Depth: 4 * qpDepth, Handler: handler})
	must(t, err)
	s.cq = c.(*cq)
	s.mem, err = verbs.AllocMemory(n)
	must(t, err)
	s.mr, err = s.pd.RegMR(s.mem, allRights)
	must(t, err)
	t.Cleanup(func() {
		if s.id != nil {
			_ = s.id.Destroy() // a test may have done it
		} else if s.qp != nil {
			_ = s.qp.Destroy()
			if s.qp.sock != nil {
				_ = s.qp.sock.Close()
			}
			s.qp.farewell.Wait()
		}
		must(t, s.cq.Destroy())
		must(t, s.mr.Dereg())
		must(t, s.pd.Dealloc())
		must(t, verbs.FreeMemory(s.mem))
	})
	return s
}

func (s *side) attr() verbs.QPInitAttr {
	return verbs.QPInitAttr{SendCQ: s.cq, RecvCQ: s.cq, Cap: qpCap}
}

// bare gives the side a QP without a CMID.
func (s *side) bare(t testing.TB) *side {
	t.Helper()
	q, err := newQP(s.pd.(*pd), s.attr())
	must(t, err)
	q.ended = func(cause error) {
		select {
		case s.ends <- cause:
		default:
		}
	}
	s.qp = q
	return s
}

// on gives the side the QP of a CMID.
func (s *side) on(t testing.TB, id verbs.CMID) *side {
	t.Helper()
	s.id = id
	q, err := id.CreateQP(s.pd, s.attr())
	must(t, err)
	s.qp = q.(*qp)
	return s
}

func (s *side) sge(off, n int) []verbs.SGE {
	return []verbs.SGE{{Addr: s.mr.Addr() + uint64(off), Length: uint32(n), LKey: s.mr.LKey()}}
}

// memPair is two QPs joined in memory.
func memPair(t testing.TB, limit, chunk int, l link, n int) (a, b *side) {
	t.Helper()
	d := New().dev
	a, b = newSide(t, d, nil, n).bare(t), newSide(t, d, nil, n).bare(t)
	x, y := memStreams(limit, chunk)
	must(t, a.qp.start(x, l))
	must(t, b.qp.start(y, l))
	return a, b
}

func fill(b []byte, seed uint64) {
	r := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), byte(seed >> 16)})
	r.Read(b)
}

// take polls n completions, or fails after a while.
func (s *side) take(t testing.TB, n int) []verbs.WC {
	t.Helper()
	wcs := make([]verbs.WC, n)
	got := 0
	for end := time.Now().Add(10 * time.Second); got < n; {
		if k := s.cq.Poll(wcs[got:]); k > 0 {
			got += k
			continue
		}
		if time.Now().After(end) {
			t.Fatalf("%d of %d completions: %+v", got, n, wcs[:got])
		}
		time.Sleep(20 * time.Microsecond)
	}
	return wcs
}

// ok polls the successful completions of the requests.
func (s *side) ok(t testing.TB, ids ...uint64) {
	t.Helper()
	for i, wc := range s.take(t, len(ids)) {
		if wc.ID != ids[i] || wc.Status != verbs.WCSuccess {
			t.Fatalf("completion %d: %+v, want success of %d", i, wc, ids[i])
		}
	}
}

// end waits for the end of a QP without a CMID.
func (s *side) end(t testing.TB) error {
	t.Helper()
	select {
	case err := <-s.ends:
		return err
	case <-time.After(10 * time.Second):
		t.Fatal("QP has not ended")
		return nil
	}
}

// tcpSides is two QPs connected by a provider. params go to the active side.
func tcpSides(t testing.TB, params string, n int, ha, hb func([]verbs.WC)) (a, b *side) {
	t.Helper()
	p := New()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	l, err := p.Listen(ctx, verbs.Addr{Fabric: Name, Host: "127.0.0.1", Port: "0"})
	must(t, err)
	defer l.Close()
	to, err := verbs.ParseAddr(l.Addr().String()+params, "0")
	must(t, err)
	id, err := p.ResolveAddr(ctx, to)
	must(t, err)
	a = newSide(t, p.dev, ha, n).on(t, id)
	param := verbs.ConnParam{ResponderResources: 16, InitiatorDepth: 16}
	connected := make(chan error, 1)
	go func() {
		_, err := id.Connect(ctx, param)
		connected <- err
	}()
	peer, err := l.GetRequest(ctx)
	must(t, err)
	b = newSide(t, p.dev, hb, n).on(t, peer)
	_, err = peer.Accept(ctx, param)
	must(t, err)
	must(t, <-connected)
	return a, b
}
