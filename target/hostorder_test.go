package target

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestHostOrder protects who waits for what, and for how long, in virtual time.
func TestHostOrder(t *testing.T) {
	a, b := hostKey{nqn: "a"}, hostKey{nqn: "b"}
	const limit = time.Second
	synctest.Test(t, func(t *testing.T) {
		o := newHostOrder()
		var mu sync.Mutex
		var got []string
		admit := func(name string, h hostKey, settle bool) *admission {
			return o.admit(h, settle, limit, func(err error) {
				if err != nil {
					name += ": " + err.Error()
				}
				mu.Lock()
				defer mu.Unlock()
				got = append(got, name)
			})
		}
		expect := func(want ...string) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			for i, w := range want {
				if i >= len(got) || got[i] != w {
					t.Fatalf("%q, want %q", got, want)
				}
			}
			if len(got) != len(want) {
				t.Fatalf("%q, want %q", got, want)
			}
			got = nil
		}
		admit("nobody else", a, false)
		expect("nobody else")

		o.lose(a)
		o.lose(a)
		admit("first", a, false)
		admit("other host", b, false)
		expect("other host")
		o.drained(a)
		expect()
		admit("second", a, false)
		o.drained(a)
		expect("first", "second")

		admit("settles", a, true)
		time.Sleep(settleTime - time.Microsecond)
		expect()
		time.Sleep(time.Microsecond)
		expect("settles")

		admit("loss while it settles", a, true)
		o.lose(a)
		time.Sleep(2 * settleTime)
		expect()
		o.drained(a)
		expect("loss while it settles")

		o.lose(a)
		gone := admit("withdrawn", a, false)
		admit("late", a, false)
		if !o.withdraw(gone) || o.withdraw(gone) {
			t.Error("withdrawn twice, or not at all")
		}
		time.Sleep(limit)
		expect("late: " + errDrainTimeout.Error())
		o.drained(a)
		if len(o.lost) != 0 || len(o.waiting) != 0 {
			t.Errorf("left behind: %v, %v", o.lost, o.waiting)
		}
	})
}

// TestKeepAliveTimer protects the timer's arithmetic, with time as input.
func TestKeepAliveTimer(t *testing.T) {
	start := time.Unix(1000, 0)
	c := &controller{}
	c.admitted(kato(4001), start)
	look := func(after time.Duration, wantNext time.Duration, wantExpired bool) {
		t.Helper()
		next, expired := c.checkKeepAlive(start.Add(after))
		if expired != wantExpired || !expired && !next.Equal(start.Add(wantNext)) {
			t.Errorf("after %v: look again after %v, expired %v", after, next.Sub(start), expired)
		}
	}
	look(0, 5*time.Second, false)
	look(4*time.Second, 5*time.Second, false)
	c.traffic.Store(true)
	look(4*time.Second, 9*time.Second, false)
	look(8*time.Second, 9*time.Second, false)
	look(9*time.Second, 0, true)
	if c.csts&2 == 0 || c.state != controllerFailed {
		t.Errorf("state %s, CSTS 0x%x", c.state, c.csts)
	}
	c = &controller{}
	c.admitted(0, start)
	if next, expired := c.checkKeepAlive(start.Add(time.Hour)); expired || !next.IsZero() {
		t.Error("a timer that is off expires")
	}
	if kato(0) != 0 || kato(1) != time.Second || kato(1000) != time.Second || kato(1<<32-1) != 4294968*time.Second {
		t.Error("kato")
	}
}
