package bufpool

import (
	"errors"
	"testing"

	"go.uber.org/goleak"

	"rbd/verbs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	fakeLKey = 0x1111
	fakeRKey = 0x2222
)

// fakePD registers regions without a device.
type fakePD struct {
	verbs.PD
	err    error // of RegMR, after room regions
	room   int
	key    uint32 // is added to the keys
	access verbs.Access
	live   int
}

func (pd *fakePD) RegMR(mem []byte, access verbs.Access) (verbs.MR, error) {
	if pd.err != nil && pd.live >= pd.room {
		return nil, pd.err
	}
	pd.access = access
	pd.live++
	return &fakeMR{pd: pd, mem: mem}, nil
}

type fakeMR struct {
	verbs.MR
	pd  *fakePD
	mem []byte
}

func (m *fakeMR) Addr() uint64 { return verbs.AddrOf(m.mem) }
func (m *fakeMR) LKey() uint32 { return m.pd.key + fakeLKey }
func (m *fakeMR) RKey() uint32 { return m.pd.key + fakeRKey }

func (m *fakeMR) Dereg() error {
	if m.pd.live--; m.pd.live < 0 {
		return verbs.ErrClosed
	}
	return nil
}

// newPool makes a pool that must be whole again when the test ends.
func newPool(t testing.TB, size, maxBlock int) *Pool {
	t.Helper()
	pd := &fakePD{}
	p, err := New(pd, size, maxBlock, verbs.AccessLocalWrite)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil && !errors.Is(err, ErrClosed) {
			t.Errorf("close: %v", err)
		}
		if pd.live != 0 {
			t.Errorf("%d regions are registered after Close", pd.live)
		}
	})
	return p
}

// mustGet takes a block that must be there.
func mustGet(t testing.TB, p *Pool, n int) *Buf {
	t.Helper()
	var b Buf
	if !p.TryGet(n, &b) {
		t.Fatalf("no block of %d bytes, %d are free", n, p.Free())
	}
	return &b
}
