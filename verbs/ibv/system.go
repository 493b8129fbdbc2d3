package ibv

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// system is where the kernel shows its RDMA devices.
type system struct {
	sys string // /sys
	dev string // /dev/infiniband
}

var defaultSystem = system{sys: "/sys", dev: "/dev/infiniband"}

func (s system) class() string { return filepath.Join(s.sys, "class", "infiniband") }

// check says what a program would miss that wants to use RDMA devices, and how to
// get it.
func (s system) check() error {
	names, err := os.ReadDir(s.class())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("list RDMA devices: %w", err)
	}
	if len(names) == 0 {
		return fmt.Errorf("this machine has no RDMA device (%s is empty); load the driver of the adapter, or make a software device: "+
			"modprobe rdma_rxe && rdma link add rxe0 type rxe netdev NETDEV", s.class())
	}
	if err := s.usable("rdma_cm", "rdma_ucm"); err != nil {
		return err
	}
	for _, n := range names {
		if uverbs := s.uverbs(n.Name()); uverbs != "" {
			return s.usable(uverbs, "ib_uverbs")
		}
	}
	return fmt.Errorf("RDMA device %s can't be used from programs: the kernel module ib_uverbs is not loaded; modprobe ib_uverbs", names[0].Name())
}

// usable says why a device file can't be opened.
func (s system) usable(name, module string) error {
	file := filepath.Join(s.dev, name)
	switch err := unix.Access(file, unix.R_OK|unix.W_OK); {
	case err == nil:
		return nil
	case errors.Is(err, unix.ENOENT):
		return fmt.Errorf("%s is missing: the kernel module %s is not loaded; modprobe %s", file, module, module)
	case errors.Is(err, unix.EACCES):
		return fmt.Errorf("no permission to use %s; run as root, or give the user's group access to the files in %s (udev rule of package rdma-core)", file, s.dev)
	default:
		return fmt.Errorf("%s: %w", file, err)
	}
}

// uverbs is the name of a device's file for programs; empty if it has none.
func (s system) uverbs(device string) string {
	entries, err := os.ReadDir(filepath.Join(s.sys, "class", "infiniband_verbs"))
	if err != nil {
		return ""
	}
	for _, e := range entries {
		if readWord(filepath.Join(s.sys, "class", "infiniband_verbs", e.Name(), "ibdev")) == device {
			return e.Name()
		}
	}
	return ""
}

// noDriver is the error when the kernel has devices, but rdma-core has none.
func (s system) noDriver() error {
	names, _ := os.ReadDir(s.class())
	var list []string
	for _, n := range names {
		list = append(list, n.Name())
	}
	if len(list) == 0 {
		return s.check()
	}
	return fmt.Errorf("rdma-core has no driver for the device %s; install it with: apt install ibverbs-providers", strings.Join(list, ", "))
}

// readWord is a file's text without the end of line; empty if it can't be read.
func readWord(file string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
