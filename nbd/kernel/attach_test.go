package kernel

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rbd/nbd/nbdtest"
)

var options = Options{Index: AnyDevice, Identifier: identifier, Connections: 2, RequestTimeout: 30 * time.Second, DeadConnTimeout: time.Minute}

// attach attaches a disk in memory to the fake kernel, until the test ends.
func attach(t *testing.T, ram *nbdtest.RAM, h *Host) *Attachment {
	t.Helper()
	s, e := newServer(t, ram)
	a, err := h.Attach(s, e, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := a.ForceDetach(ctx); err != nil {
			t.Error(err)
		}
		await(t, a)
	})
	return a
}

// await waits for the end of an attachment.
func await(t *testing.T, a *Attachment) {
	t.Helper()
	select {
	case <-a.Done():
	case <-time.After(patience):
		t.Fatal("the attachment does not end")
	}
}

// ask sends one request, as the kernel does.
func ask(t *testing.T, c *nbdtest.Client, r nbdtest.Request) nbdtest.Reply {
	t.Helper()
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	reply, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	return reply
}

// An attached device reads and writes on each of its connections, and is detached
// when nobody uses it.
func TestAttach(t *testing.T) {
	k, h := newFakeKernel(t)
	ram := newRAM(t)
	a := attach(t, ram, h)
	if a.Path() != "/dev/nbd3" || a.Size() != 1<<20 {
		t.Fatalf("attached %s of %d bytes", a.Path(), a.Size())
	}
	d, err := a.Device()
	if err != nil || d.Backend != identifier || !d.Connected || d.Size != 1<<20 || d.BlockSize != 512 {
		t.Fatalf("device %+v, %v", d, err)
	}
	for i := range 2 {
		if r := ask(t, k.socket(i), nbdtest.Request{Cmd: nbdtest.CmdWrite, Cookie: 1, Offset: uint64(i) * 512, Payload: slices.Repeat([]byte{byte(i + 1)}, 512)}); r.Error != 0 {
			t.Fatalf("write on connection %d: error %d", i, r.Error)
		}
	}
	if ram.Data[0] != 1 || ram.Data[512] != 2 {
		t.Fatal("the writes did not reach the disk")
	}
	if err := a.Detach(t.Context()); err != nil {
		t.Fatal(err)
	}
	await(t, a)
	if err := a.Err(); err != nil {
		t.Fatalf("a detach that was asked for ends with %v", err)
	}
}

// Protects from requests that no disk may be done with in time: the kernel is told of
// trimming, with a bound, and not of Write Zeroes, for which there is none. A device that
// an older process has attached may still send one.
func TestAttachBoundsRequests(t *testing.T) {
	k, h := newFakeKernel(t)
	k.write("queue/discard_max_bytes", "4294966784\n")
	ram := newRAM(t)
	attach(t, ram, h)
	const trim, writeZeroes = 1 << 5, 1 << 6 // NBD_FLAG_SEND_TRIM, NBD_FLAG_SEND_WRITE_ZEROES
	if k.flags&(trim|writeZeroes) != trim {
		t.Errorf("the kernel was told of the flags %#x", k.flags)
	}
	path := filepath.Join(k.root, "sys/block/nbd3/queue/discard_max_bytes")
	if b, err := os.ReadFile(path); err != nil || string(b) != "33554432" {
		t.Errorf("the longest trim is %q, %v", b, err)
	}
	copy(ram.Data, "data")
	if r := ask(t, k.socket(0), nbdtest.Request{Cmd: nbdtest.CmdWriteZeroes, Length: 512}); r.Error != 0 || ram.Data[0] != 0 {
		t.Errorf("write zeroes: error %d", r.Error)
	}
}

// What the kernel refuses is told with the device and the remedy.
func TestAttachRefused(t *testing.T) {
	for errno, want := range map[unix.Errno]string{
		unix.EBUSY: "attach /dev/nbd3: it is in use; `auto` takes a free one",
		unix.EPERM: "run as root",
	} {
		k, h := newFakeKernel(t)
		s, e := newServer(t, newRAM(t))
		k.refuse = errno
		o := options
		o.Index = 3
		if _, err := h.Attach(s, e, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", errno, err, want)
		}
	}
}

// A connection that the kernel gives up is replaced, and one that it has no place
// for is not offered again.
func TestReplace(t *testing.T) {
	k, h := newFakeKernel(t)
	a := attach(t, newRAM(t), h)
	for range 3 {
		ask(t, k.socket(1), nbdtest.Request{Cmd: nbdtest.CmdFlush, Cookie: 1})
		k.mu.Lock()
		k.drop(1)
		k.mu.Unlock()
	}
	ask(t, k.socket(1), nbdtest.Request{Cmd: nbdtest.CmdFlush, Cookie: 2})
	ask(t, k.socket(0), nbdtest.Request{Cmd: nbdtest.CmdFlush, Cookie: 3})
	if a.isEnding() {
		t.Fatal(a.Err())
	}
}

// A device that another program detached ends the attachment, which says so.
func TestDetachedByOthers(t *testing.T) {
	for _, rough := range []bool{false, true} {
		k, h := newFakeKernel(t)
		a := attach(t, newRAM(t), h)
		ask(t, k.socket(0), nbdtest.Request{Cmd: nbdtest.CmdFlush, Cookie: 1})
		k.mu.Lock()
		if rough { // without NBD_CMD_DISC
			k.drop(0)
			k.drop(1)
			k.remove("pid")
		} else {
			_ = k.socketsSend(nbdtest.Request{Cmd: nbdtest.CmdDisc})
		}
		k.mu.Unlock()
		await(t, a)
		if err := a.Err(); !errors.Is(err, ErrDetached) {
			t.Errorf("ended with %v", err)
		}
	}
}

// socketsSend sends a request on all sockets. mu is held.
func (k *fakeKernel) socketsSend(r nbdtest.Request) (err error) {
	for i, s := range k.sockets {
		err = errors.Join(err, s.Send(r))
		k.drop(i)
	}
	return err
}

// A device of a dead process goes on with new sockets; one of another disk, or
// with other blocks, does not.
func TestTakeOver(t *testing.T) {
	k, h := newFakeKernel(t)
	ram := newRAM(t)
	first := attach(t, ram, h)
	first.Abandon()
	k.mu.Lock()
	k.drop(0)
	k.drop(1)
	k.mu.Unlock()
	await(t, first)

	d, found, err := h.Find(identifier)
	if err != nil || !found || d.Index != 3 {
		t.Fatalf("found %+v, %v, %v", d, found, err)
	}
	if _, found, err := h.Find("rbd-other-1"); found || err != nil {
		t.Fatalf("found a device of another disk (%v)", err)
	}
	s, e := newServer(t, ram)
	other := options
	other.Identifier = "rbd-other-1"
	if _, err := h.TakeOver(s, e, d, other); !errors.Is(err, unix.EINVAL) {
		t.Fatalf("took over the device of another disk: %v", err)
	}
	wrong := d
	wrong.BlockSize = 4096
	if _, err := h.TakeOver(s, e, wrong, options); err == nil {
		t.Fatal("took over a device with other blocks")
	}
	more := options
	more.Connections = 3 // one more than the kernel has places for
	a, err := h.TakeOver(s, e, d, more)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		ask(t, k.socket(i), nbdtest.Request{Cmd: nbdtest.CmdFlush, Cookie: 1})
	}
	if err := a.Detach(t.Context()); err != nil {
		t.Fatal(err)
	}
	await(t, a)
}

// A device grows at once, keeps its block size, and does not shrink while it is
// used.
func TestResize(t *testing.T) {
	k, h := newFakeKernel(t)
	a := attach(t, newRAM(t), h)
	if err := a.Resize(2 << 20); err != nil {
		t.Fatal(err)
	}
	mount := filepath.Join(k.root, "proc/1/mountinfo")
	if err := os.MkdirAll(filepath.Join(filepath.Dir(mount), "ns"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("mnt:[1]", filepath.Join(k.root, "proc/1/ns/mnt")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(mount, []byte("36 35 43:96 / /mnt\\040x rw - ext4 /dev/nbd3 rw\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	var busy *BusyError
	if err := a.Resize(1 << 20); !errors.As(err, &busy) || !strings.Contains(err.Error(), "nbd3 is mounted on /mnt x") {
		t.Fatalf("shrank a mounted device: %v", err)
	}
	if err := a.Detach(t.Context()); !errors.As(err, &busy) {
		t.Fatalf("detached a mounted device: %v", err)
	}
	if a.Size() != 2<<20 || a.isEnding() {
		t.Fatalf("a refusal changed the device: %d bytes", a.Size())
	}
	os.Remove(mount)
	if err := a.Resize(1 << 20); err != nil {
		t.Fatal(err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if want := []uint64{1 << 20, 2 << 20, 1 << 20}; !slices.Equal(k.sizes, want) {
		t.Fatalf("sizes %v, want %v", k.sizes, want)
	}
}
