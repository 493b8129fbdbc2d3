package kernel

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Host is the nbd driver of this machine's kernel. It is closed with Close.
type Host struct {
	// Root is the folder in which sys, proc and dev are; "/" unless a test says
	// otherwise.
	Root string

	control driver
	log     *slog.Logger
}

// driver is a way to talk to the kernel's driver: its netlink family, or its ioctls.
type driver interface {
	connect(*config) (index int, err error)
	reconfigure(*config) error
	disconnect(ctx context.Context, index int) error
	close() error
}

// Watch is a Host that can look, and not change anything.
func Watch() *Host { return &Host{Root: "/", log: slog.New(slog.DiscardHandler)} }

// Open opens the driver, and loads its module if need be. Where the kernel has no
// netlink family for it, the old ioctls have to do.
func Open(log *slog.Logger) (*Host, error) {
	h := &Host{Root: "/", log: log}
	c, err := dial()
	if errors.Is(err, ErrNoFamily) && !loaded() {
		if loadErr := loadModule(); loadErr != nil {
			return nil, fmt.Errorf("%w, and its module can't be loaded here: %w; run: modprobe nbd", err, loadErr)
		}
		c, err = dial()
	}
	switch {
	case err == nil:
		h.control = c
	case errors.Is(err, ErrNoFamily) && loaded():
		log.Warn("no netlink family for nbd here: the kernel is old, or this is not the first network namespace. " +
			"The old ioctls are used: the device has no identifier, and ends with this process")
		h.control = newIoctls(h)
	default:
		return nil, err
	}
	return h, nil
}

// loaded says whether the kernel has the driver, as a module or built in.
func loaded() bool {
	_, err := os.Stat("/sys/module/nbd")
	return err == nil
}

// Close closes the way to the driver.
func (h *Host) Close() error {
	if h.control == nil {
		return nil
	}
	return h.control.close()
}

// loadModule runs modprobe.
func loadModule() error {
	path, err := exec.LookPath("modprobe")
	if errors.Is(err, exec.ErrNotFound) {
		for _, p := range []string{"/sbin/modprobe", "/usr/sbin/modprobe"} {
			if _, statErr := os.Stat(p); statErr == nil {
				path, err = p, nil
			}
		}
	}
	if err != nil {
		return err
	}
	out, err := exec.Command(path, "nbd").CombinedOutput()
	if err != nil {
		if text := strings.TrimSpace(string(out)); text != "" {
			return errors.New(strings.ReplaceAll(text, "\n", "; "))
		}
		return fmt.Errorf("modprobe nbd: %w", err)
	}
	return nil
}

// permission explains EPERM.
func permission(err error) error {
	if errors.Is(err, unix.EPERM) {
		return fmt.Errorf("%w: a kernel device needs CAP_SYS_ADMIN; run as root, or use an NBD socket", err)
	}
	return err
}

// ScanPartitions opens the device, which makes the kernel look for partitions.
func (h *Host) ScanPartitions(d Device) error {
	f, err := os.Open(filepath.Join(h.Root, d.Path()))
	if err != nil {
		return fmt.Errorf("look for partitions: %w", err)
	}
	return f.Close()
}

// Announce makes the kernel send a change event of the device that carries a UUID
// (SYNTH_UUID), as `udevadm trigger` does: what waits for it knows that udev has
// done with all that came before.
func (h *Host) Announce(d Device, uuid string) error {
	path := filepath.Join(h.sysfs(d), "uevent")
	if err := os.WriteFile(path, []byte("change "+uuid), 0); err != nil {
		return fmt.Errorf("announce %s: %w", d.Path(), err)
	}
	return nil
}
