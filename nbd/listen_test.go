package nbd_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"rbd/nbd"
)

// A socket that a dead server left is replaced; a living server's, and what is
// no socket, is left alone with an error that says so.
func TestListenUnix(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "s")
	l, err := nbd.ListenUnix(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := nbd.ListenUnix(path); !errors.Is(err, nbd.ErrInUse) || !strings.Contains(err.Error(), path) {
		t.Errorf("living server: %v", err)
	}
	l.Close()
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("the socket is still there: %v", err)
	}

	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	dead.Close()
	l, err = nbd.ListenUnix(path)
	if err != nil {
		t.Fatalf("dead server: %v", err)
	}

	// Somebody else's socket in the same place is not removed.
	os.Remove(path)
	other, err := nbd.ListenUnix(path)
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("closing removed another server's socket: %v", err)
	}
	other.Close()

	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, p := range map[string]string{
		"file":      file,
		"directory": dir,
		"missing":   filepath.Join(dir, "no", "such"),
		"too long":  filepath.Join(dir, strings.Repeat("x", 120)),
	} {
		if _, err := nbd.ListenUnix(p); err == nil || !strings.Contains(err.Error(), p) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if b, _ := os.ReadFile(file); string(b) != "precious" {
		t.Error("the file was touched")
	}
}
