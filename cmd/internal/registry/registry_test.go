package registry

import (
	"bufio"
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type fake struct {
	ended  atomic.Bool
	refuse error
	ending bool
}

func (f *fake) Record() Record {
	return Record{PID: os.Getpid(), NQN: "nqn.a", State: "live", Since: time.Unix(1, 0), Disks: []Disk{{NSID: 1, Device: "/dev/nbd0", Size: 512}}}
}

func (f *fake) Disconnect(_ context.Context, d Disconnect) (bool, error) {
	if f.refuse != nil && !d.Force {
		return false, f.refuse
	}
	f.ended.Store(true)
	return f.ending, nil
}

// A process is found while it lives, does what it is asked, and leaves nothing.
func TestServe(t *testing.T) {
	dir := t.TempDir()
	p := &fake{refuse: errors.New("/dev/nbd0 is in use: mounted on /mnt"), ending: true}
	s, err := Serve(dir, p)
	if err != nil {
		t.Fatal(err)
	}
	list, err := Entries(t.Context(), dir)
	if err != nil || len(list) != 1 || !list[0].Alive || list[0].Disks[0].Name() != "/dev/nbd0" || list[0].State != "live" {
		t.Fatalf("%+v, %v", list, err)
	}
	if err := list[0].Disconnect(t.Context(), Disconnect{}); err == nil || err.Error() != p.refuse.Error() {
		t.Fatalf("a refusal came as %v", err)
	}
	gone := make(chan error, 1)
	go func() { gone <- list[0].Disconnect(t.Context(), Disconnect{Force: true}) }()
	select {
	case err := <-gone:
		t.Fatalf("returned before the process had ended: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	if err := s.Close(nil); err != nil {
		t.Fatal(err)
	}
	if err := <-gone; err != nil || !p.ended.Load() {
		t.Fatalf("disconnect: %v, ended %v", err, p.ended.Load())
	}
	if files, _ := os.ReadDir(dir); len(files) != 0 {
		t.Fatalf("left behind: %v", files)
	}
	if list, err := Entries(t.Context(), dir); len(list) != 0 || err != nil {
		t.Fatalf("%+v, %v", list, err)
	}
}

// Who asked for the end is told how it went: the process may have lost data. One that
// dies instead has not ended well, and an older one, which says nothing, has.
func TestOutcome(t *testing.T) {
	disconnect := func(t *testing.T, dir string) error {
		list, err := Entries(t.Context(), dir)
		if err != nil || len(list) != 1 {
			t.Fatalf("%+v, %v", list, err)
		}
		return list[0].Disconnect(t.Context(), Disconnect{})
	}
	t.Run("failed", func(t *testing.T) {
		dir, p := t.TempDir(), &fake{ending: true}
		s, err := Serve(dir, p)
		if err != nil {
			t.Fatal(err)
		}
		told := make(chan error, 1)
		go func() { told <- disconnect(t, dir) }()
		for !p.ended.Load() {
			time.Sleep(time.Millisecond)
		}
		if err := s.Close(errors.New("flush namespace 1: timed out")); err != nil {
			t.Error(err)
		}
		if err := <-told; err == nil || err.Error() != "flush namespace 1: timed out" {
			t.Errorf("disconnect: %v", err)
		}
	})
	for name, c := range map[string]struct{ answer, want string }{
		"killed": {`{"ending":true,"outcome":true}`, "killed while it was ending"},
		"older":  {`{"ending":true}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			l, err := net.Listen("unix", filepath.Join(dir, "connect-1.sock"))
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			if err := os.WriteFile(filepath.Join(dir, "connect-1.json"), []byte(`{"pid":1}`), 0o600); err != nil {
				t.Fatal(err)
			}
			go func() {
				for _, answer := range []string{"{}", c.answer} {
					conn, err := l.Accept()
					if err != nil {
						return
					}
					bufio.NewReader(conn).ReadString('\n')
					conn.Write([]byte(answer + "\n"))
					conn.Close()
				}
			}()
			if err := disconnect(t, dir); (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("disconnect: %v, want %q", err, c.want)
			}
		})
	}
}

// What a killed process had is known, as that of a dead one, until it is removed.
func TestDeadProcess(t *testing.T) {
	dir := t.TempDir()
	s, err := Serve(dir, &fake{})
	if err != nil {
		t.Fatal(err)
	}
	base := filepath.Join(dir, "connect-999999")
	b, err := os.ReadFile(s.base + ".json")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(base+".json", b, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(nil); err != nil {
		t.Fatal(err)
	}
	list, err := Entries(t.Context(), dir)
	if err != nil || len(list) != 1 || list[0].Alive || list[0].NQN != "nqn.a" {
		t.Fatalf("%+v, %v", list, err)
	}
	list[0].Remove()
	if list, err := Entries(t.Context(), dir); len(list) != 0 || err != nil {
		t.Fatalf("%+v, %v", list, err)
	}
	if list, err := Entries(t.Context(), filepath.Join(dir, "none")); len(list) != 0 || err != nil {
		t.Fatalf("folder that is not there: %+v, %v", list, err)
	}
}

// One process at a time has the lock of a disk.
func TestLock(t *testing.T) {
	dir := t.TempDir()
	f, err := Lock(dir, "nqn.a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Lock(dir, "nqn.a"); !errors.Is(err, ErrLocked) {
		t.Fatalf("locked twice: %v", err)
	}
	for name, want := range map[string]bool{"nqn.a": true, "nqn.b": false} {
		if got, err := Locked(dir, name); err != nil || got != want {
			t.Errorf("%s is locked: %v, %v; want %v", name, got, err, want)
		}
	}
	other, err := Lock(dir, "nqn.b")
	if err != nil {
		t.Fatal(err)
	}
	other.Close()
	f.Close()
	again, err := Lock(dir, "nqn.a")
	if err != nil {
		t.Fatal(err)
	}
	again.Close()
}
