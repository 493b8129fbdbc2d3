package kernel

import (
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/mdlayher/genetlink"
	"github.com/mdlayher/genetlink/genltest"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"rbd/nbd"
	"rbd/nbd/nbdtest"
)

const (
	patience   = 10 * time.Second
	identifier = "rbd-nqn.2026-11.io.rbd:disk-1"
)

// fakeKernel does what drivers/block/nbd.c does with the commands of the netlink
// family, as far as these tests need it: it keeps sockets, replaces dead ones, and
// has a sysfs.
type fakeKernel struct {
	t    *testing.T
	root string

	mu      sync.Mutex
	index   int
	backend string
	sockets []*nbdtest.Client // nil: dead
	sizes   []uint64          // that were set
	flags   uint16            // that it was told of
	refuse  unix.Errno        // what the next command fails with
}

// newFakeKernel has the device nbd3, which nobody uses.
func newFakeKernel(t *testing.T) (*fakeKernel, *Host) {
	t.Helper()
	k := &fakeKernel{t: t, root: t.TempDir(), index: 3}
	k.write("queue/logical_block_size", "512\n")
	k.write("size", "0\n")
	k.write("ro", "0\n")
	k.write("dev", "43:96\n")
	k.write("uevent", "")
	dev := filepath.Join(k.root, "dev/nbd3")
	if err := os.MkdirAll(filepath.Dir(dev), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dev, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	family := genetlink.Family{ID: 0x1b, Version: familyVersion, Name: familyName}
	c, err := newControl(genltest.Dial(genltest.ServeFamily(family, k.serve)))
	if err != nil {
		t.Fatal(err)
	}
	h := &Host{Root: k.root, control: c, log: slog.New(slog.NewTextHandler(t.Output(), nil))}
	t.Cleanup(func() {
		k.mu.Lock()
		for i := range k.sockets {
			k.drop(i)
		}
		k.mu.Unlock()
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return k, h
}

// write makes a file of the device in sysfs.
func (k *fakeKernel) write(name, text string) {
	k.t.Helper()
	path := filepath.Join(k.root, fmt.Sprintf("sys/block/nbd%d", k.index), name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		k.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		k.t.Fatal(err)
	}
}

func (k *fakeKernel) remove(name string) {
	os.Remove(filepath.Join(k.root, fmt.Sprintf("sys/block/nbd%d", k.index), name))
}

func (k *fakeKernel) serve(greq genetlink.Message, _ netlink.Message) ([]genetlink.Message, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if e := k.refuse; e != 0 {
		k.refuse = 0
		return nil, genltest.Error(int(e))
	}
	cfg := decodeConfig(k.t, greq.Data)
	switch greq.Header.Command {
	case cmdConnect:
		k.backend, k.flags = cfg.identifier, cfg.flags
		k.write("pid", "1\n")
		k.write("backend", cfg.identifier+"\n")
		k.write("queue/logical_block_size", fmt.Sprintln(cfg.blockSize))
		for _, fd := range cfg.sockets {
			k.sockets = append(k.sockets, k.take(fd))
		}
		k.resize(cfg.size)
		return []genetlink.Message{{Data: must(encodeIndex(k.index))}}, nil
	case cmdReconfigure:
		if cfg.identifier != k.backend {
			return nil, genltest.Error(int(unix.EINVAL))
		}
		if cfg.size > 0 {
			k.resize(cfg.size)
		}
		for _, fd := range cfg.sockets {
			for i, s := range k.sockets {
				if s == nil {
					k.sockets[i] = k.take(fd)
					break
				}
			}
		}
	case cmdDisconnect:
		for i, s := range k.sockets {
			if s != nil {
				_ = s.Send(nbdtest.Request{Cmd: nbdtest.CmdDisc})
				k.drop(i)
			}
		}
		k.sockets = nil
		k.remove("pid")
		k.remove("backend")
	}
	return []genetlink.Message{{}}, nil
}

// take makes a socket of the process one of its own.
func (k *fakeKernel) take(fd int) *nbdtest.Client {
	dup, err := unix.Dup(fd)
	if err != nil {
		k.t.Error(err)
		return nil
	}
	f := os.NewFile(uintptr(dup), "socket")
	defer f.Close()
	nc, err := net.FileConn(f)
	if err != nil {
		k.t.Error(err)
		return nil
	}
	return nbdtest.Handed(nc)
}

func (k *fakeKernel) resize(size uint64) {
	k.sizes = append(k.sizes, size)
	k.write("size", fmt.Sprintln(size/512))
}

// drop gives a socket up, as after a timeout. mu is held.
func (k *fakeKernel) drop(i int) {
	if s := k.sockets[i]; s != nil {
		_ = s.Conn.(*net.UnixConn).CloseWrite()
		s.Close()
		k.sockets[i] = nil
	}
}

// socket is a living socket, once there is one in that place.
func (k *fakeKernel) socket(i int) *nbdtest.Client {
	k.t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		k.mu.Lock()
		if i < len(k.sockets) && k.sockets[i] != nil {
			defer k.mu.Unlock()
			return k.sockets[i]
		}
		k.mu.Unlock()
	}
	k.t.Fatalf("the kernel has no socket %d", i)
	return nil
}

// decodeConfig reads a command back.
func decodeConfig(t *testing.T, b []byte) (c config) {
	ad, err := netlink.NewAttributeDecoder(b)
	if err != nil {
		t.Error(err)
		return c
	}
	for ad.Next() {
		switch ad.Type() {
		case attrIndex:
			c.index = int(ad.Uint32())
		case attrSizeBytes:
			c.size = ad.Uint64()
		case attrBlockSizeBytes:
			c.blockSize = uint32(ad.Uint64())
		case attrServerFlags:
			c.flags = uint16(ad.Uint64())
		case attrBackendIdentifier:
			c.identifier = ad.String()
		case attrSockets:
			ad.Nested(func(items *netlink.AttributeDecoder) error {
				for items.Next() {
					items.Nested(func(s *netlink.AttributeDecoder) error {
						for s.Next() {
							c.sockets = append(c.sockets, int(s.Uint32()))
						}
						return nil
					})
				}
				return nil
			})
		}
	}
	if ad.Err() != nil {
		t.Error(ad.Err())
	}
	return c
}

// newServer is an NBD server of a disk in memory, and the export.
func newServer(t *testing.T, ram *nbdtest.RAM) (*nbd.Server, nbd.Export) {
	t.Helper()
	e := nbd.Export{Name: "1", Device: ram}
	s, err := nbd.NewServer([]nbd.Export{e}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return s, e
}

func newRAM(t *testing.T) *nbdtest.RAM {
	t.Helper()
	ram, err := nbdtest.NewRAM(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if n := ram.InUse(); n != 0 {
			t.Errorf("%d buffers are still in use", n)
		}
		if err := ram.Close(); err != nil {
			t.Error(err)
		}
	})
	return ram
}
