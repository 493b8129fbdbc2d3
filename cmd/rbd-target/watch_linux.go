package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"rbd/cmd/internal/uevent"
	"rbd/target"
	"rbd/target/backend"
	"rbd/wire"
)

// watchPeriod is how often files are looked at, and devices that have vanished. The
// kernel tells of devices; of a file it would tell each write.
const watchPeriod = time.Second

// removeTime bounds how long commands that have begun on a device that vanished may
// take to end.
const removeTime = 30 * time.Second

// exporter is the part of a target that the watcher needs.
type exporter interface {
	Resize(nqn string, nsid uint32) (int64, error)
	RemoveNamespace(ctx context.Context, nqn string, nsid uint32) error
	AddNamespace(e target.Export) (target.ExportInfo, error)
}

// watched is an export with a file or device.
type watched struct {
	spec  *exportSpec
	block bool
	// disk names the device that is open, by number and sequence; empty while it
	// has vanished.
	disk string
	size int64
	told string // the last error

	// file is what was at the path when it was opened, and moved what is there instead:
	// see identify.
	file  os.FileInfo
	moved string
}

// watcher follows the files and devices of the exports: what has another size, has
// vanished or came back is told to the hosts by the events of their namespaces.
type watcher struct {
	target  exporter
	exports []*watched
	sys     string // /sys, unless a test says otherwise
	open    func(*exportSpec) (backend.Backend, error)
	log     *slog.Logger
}

// newWatcher looks at the exports once, which have just been opened.
func newWatcher(t exporter, exports []exportSpec, backends []backend.Backend, log *slog.Logger) *watcher {
	w := &watcher{target: t, sys: "/sys", open: (*exportSpec).open, log: log}
	for i := range exports {
		if exports[i].Path == "" {
			continue
		}
		x := &watched{spec: &exports[i], size: backends[i].Size()}
		if x.disk, x.block = w.diskAt(x.spec.Path); !x.block {
			x.file, _ = os.Stat(x.spec.Path)
		}
		w.exports = append(w.exports, x)
	}
	return w
}

// run watches until ctx ends.
func (w *watcher) run(ctx context.Context) {
	if len(w.exports) == 0 {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	events := make(chan struct{}, 1)
	listening := make(chan struct{})
	defer func() {
		cancel()
		<-listening
	}()
	go func() {
		defer close(listening)
		w.listen(ctx, events)
	}()
	ticks := time.NewTicker(watchPeriod)
	defer ticks.Stop()
	for {
		tick := ticks.C
		if !w.needsTicks() {
			tick = nil
		}
		select {
		case <-ctx.Done():
			return
		case <-tick:
		case <-events:
		}
		for _, x := range w.exports {
			w.check(ctx, x)
		}
	}
}

// listen passes on that the kernel told something of a block device.
func (w *watcher) listen(ctx context.Context, events chan<- struct{}) {
	u, err := uevent.Watch(uevent.Kernel)
	if err != nil {
		w.log.Warn("changes of block devices will not be noticed", "err", err)
		return
	}
	defer u.Close()
	for {
		e, err := u.Next(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, uevent.ErrOverrun):
		case err != nil:
			w.log.Warn("changes of block devices will not be noticed any more", "err", err)
			return
		case e.Env["SUBSYSTEM"] != "block":
			continue
		}
		select {
		case events <- struct{}{}:
		default:
		}
	}
}

// needsTicks says whether there is something of which no event tells: a file, or a
// device that may come back under a link that udev makes later.
func (w *watcher) needsTicks() bool {
	for _, x := range w.exports {
		if !x.block || x.disk == "" {
			return true
		}
	}
	return false
}

// check looks at one export.
func (w *watcher) check(ctx context.Context, x *watched) {
	var err error
	switch {
	case !x.block:
		err = errors.Join(w.resize(x), w.identify(x))
	case x.disk == "":
		err = w.restore(x)
	case !w.present(x.disk):
		err = w.remove(ctx, x)
	default:
		err = w.resize(x)
	}
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != x.told && err != nil {
		w.log.Warn("export", "path", x.spec.Path, "nqn", x.spec.NQN, "nsid", x.spec.NSID, "err", err)
	}
	x.told = text
}

// resize looks at the size; the target tells its hosts.
func (w *watcher) resize(x *watched) error {
	size, err := w.target.Resize(x.spec.NQN, x.spec.NSID)
	if err != nil || size == x.size {
		return err
	}
	w.log.Info("export has another size", "path", x.spec.Path, "nqn", x.spec.NQN, "nsid", x.spec.NSID, "from", x.size, "to", size)
	x.size = size
	return nil
}

// remove takes the namespace of a device that vanished away from the hosts.
func (w *watcher) remove(ctx context.Context, x *watched) error {
	w.log.Warn("exported device has vanished; its namespace is gone until it comes back", "path", x.spec.Path, "nqn", x.spec.NQN, "nsid", x.spec.NSID)
	x.disk = ""
	ctx, cancel := context.WithTimeout(ctx, removeTime)
	defer cancel()
	return w.target.RemoveNamespace(ctx, x.spec.NQN, x.spec.NSID)
}

// restore exports a device again that came back.
func (w *watcher) restore(x *watched) error {
	disk, _ := w.diskAt(x.spec.Path)
	if disk == "" {
		return nil // not yet
	}
	b, err := w.open(x.spec)
	if err != nil {
		return err
	}
	info, err := w.target.AddNamespace(target.Export{NQN: x.spec.NQN, NSID: x.spec.NSID, UUID: wire.UUID(x.spec.UUID), Backend: b})
	if err != nil {
		return errors.Join(err, b.Close())
	}
	x.disk, x.size = disk, info.Size
	w.log.Info("exported device is back", "path", x.spec.Path, "nqn", x.spec.NQN, "nsid", x.spec.NSID, "size", info.Size)
	return nil
}

// diskAt names the block device at a path, by number and sequence: a device that is
// plugged in again has the same number, maybe, and another sequence.
func (w *watcher) diskAt(path string) (disk string, block bool) {
	info, err := os.Stat(path)
	if err != nil || info.Mode().Type() != os.ModeDevice {
		return "", false
	}
	var s unix.Stat_t
	if unix.Stat(path, &s) != nil {
		return "", true
	}
	number := fmt.Sprintf("%d:%d", unix.Major(uint64(s.Rdev)), unix.Minor(uint64(s.Rdev)))
	if seq, ok := w.sequence(number); ok {
		return number + " " + seq, true
	}
	return "", true
}

// present says whether the device of that name is still the one in sysfs.
func (w *watcher) present(disk string) bool {
	number, seq, _ := strings.Cut(disk, " ")
	now, ok := w.sequence(number)
	return ok && now == seq
}

// sequence reads diskseq (since Linux 5.15) of a disk, or of the disk of a
// partition.
func (w *watcher) sequence(number string) (seq string, ok bool) {
	dir := filepath.Join(w.sys, "dev/block", number)
	if _, err := os.Stat(dir); err != nil {
		return "", false
	}
	for _, f := range []string{dir + "/diskseq", dir + "/../diskseq"} {
		if b, err := os.ReadFile(f); err == nil {
			return strings.TrimSpace(string(b)), true
		}
	}
	return "", true
}
