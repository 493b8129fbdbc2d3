package verbstest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	"rbd/verbs"
)

const (
	// patience is how long the suite waits for what must happen.
	patience = 15 * time.Second
	// calm is how long it watches that something does not happen.
	calm = 25 * time.Millisecond
)

// Env is the surroundings of one case.
type Env struct {
	T *testing.T
	Fabric
	// Device is the one that Fabric.Listen leads to.
	Device verbs.Device

	suite string // name of the test that called Test
}

// Need skips the case, and says why, if the device or fabric lacks something.
func (e *Env) Need(has bool, what string) {
	e.T.Helper()
	if !has {
		e.T.Skipf("%s: %s", e.Device.Name(), what)
	}
}

// Context ends with the case, or after the suite's patience.
func (e *Env) Context() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	e.T.Cleanup(cancel)
	return ctx
}

// Within runs f on a goroutine of its own and fails the case if it takes too long.
func (e *Env) Within(what string, f func()) {
	e.T.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(patience):
		e.T.Fatalf("%s: not done after %v\n%s", what, patience, stacks())
	}
}

// Eventually waits until is answers true.
func (e *Env) Eventually(what string, is func() bool) {
	e.T.Helper()
	if !eventually(patience, is) {
		e.T.Fatalf("%s: not so after %v", what, patience)
	}
}

func eventually(d time.Duration, is func() bool) bool {
	for deadline := time.Now().Add(d); !is(); time.Sleep(200 * time.Microsecond) {
		if time.Now().After(deadline) {
			return false
		}
	}
	return true
}

// Destroy calls the Destroy, Dealloc, Dereg or Close of an object. An object
// that is gone already is fine.
func (e *Env) Destroy(what string, destroy func() error) {
	e.T.Helper()
	e.Within("destroy "+what, func() {
		if err := destroy(); err != nil && !errors.Is(err, verbs.ErrClosed) {
			e.T.Errorf("destroy %s: %v", what, err)
		}
	})
}

// WantErr fails the case unless err is, or wraps, one of those wanted.
func (e *Env) WantErr(what string, err error, want ...error) {
	e.T.Helper()
	for _, w := range want {
		if errors.Is(err, w) {
			return
		}
	}
	e.T.Errorf("%s: error %v, want %v", what, err, want)
}

// WantPostErr fails the case unless err is a PostError of the request index that
// wraps one of those wanted.
func (e *Env) WantPostErr(what string, err error, badWR int, want ...error) {
	e.T.Helper()
	var pe *verbs.PostError
	if !errors.As(err, &pe) {
		e.T.Errorf("%s: error %v, want a *PostError", what, err)
		return
	}
	if pe.BadWR != badWR {
		e.T.Errorf("%s: %v: work request %d is named, want %d", what, err, pe.BadWR, badWR)
	}
	e.WantErr(what, err, want...)
}

// PD makes a protection domain that lives as long as the case.
func (e *Env) PD() verbs.PD {
	e.T.Helper()
	pd, err := e.Device.AllocPD()
	if err != nil {
		e.T.Fatalf("allocate a PD: %v", err)
	}
	e.T.Cleanup(func() { e.Destroy("PD", pd.Dealloc) })
	return pd
}

// checkLeaks fails the case if, when all its cleanups have run, more goroutines
// or file descriptors exist than now.
func checkLeaks(t *testing.T) {
	goroutines, files := runtime.NumGoroutine(), openFiles()
	t.Cleanup(func() {
		if t.Failed() {
			return
		}
		if !eventually(5*time.Second, func() bool { return runtime.NumGoroutine() <= goroutines }) {
			t.Errorf("%d goroutines, %d before the case:\n%s", runtime.NumGoroutine(), goroutines, stacks())
		}
		if !eventually(5*time.Second, func() bool { return openFiles() <= files }) {
			t.Errorf("%d open files, %d before the case", openFiles(), files)
		}
	})
}

// openFiles counts the file descriptors of the process, the one it reads them
// with included.
func openFiles() int {
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(names)
}

func stacks() string {
	var b strings.Builder
	if err := pprof.Lookup("goroutine").WriteTo(&b, 1); err != nil {
		return fmt.Sprintf("no stacks: %v", err)
	}
	return b.String()
}

// in is the Env for a subtest of the case.
func (e *Env) in(t *testing.T) *Env {
	sub := *e
	sub.T = t
	return &sub
}
