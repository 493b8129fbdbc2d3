package kernel

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Device is what sysfs tells of /dev/nbdN.
type Device struct {
	Index int
	// Size is in bytes.
	Size      uint64
	BlockSize uint32
	ReadOnly  bool
	// Connected: the kernel has sockets for it, living ones or not.
	Connected bool
	// Backend is the identifier that was given when it was connected.
	Backend string
}

// Name is nbdN.
func (d Device) Name() string { return "nbd" + strconv.Itoa(d.Index) }

// Path is /dev/nbdN.
func (d Device) Path() string { return "/dev/" + d.Name() }

// ErrNoDevice is wrapped when there is no such device.
var ErrNoDevice = errors.New("no such nbd device")

var devicePath = regexp.MustCompile(`^/dev/nbd(0|[1-9][0-9]{0,5})$`)

// ParsePath reads /dev/nbdN.
func ParsePath(path string) (index int, err error) {
	m := devicePath.FindStringSubmatch(path)
	if m == nil {
		return 0, fmt.Errorf("%q is not /dev/nbdN", path)
	}
	return strconv.Atoi(m[1])
}

// maxLinks is how many links FindPath follows.
const maxLinks = 8

var deviceName = regexp.MustCompile(`^(/dev/nbd[0-9]+)(p[0-9]+)?$`)

// FindPath is ParsePath for all the names of a device that people have: nbdN, a link
// such as those in /dev/disk/by-id, and those of its partitions. A link need not lead
// to something that is still there.
func FindPath(name string) (index int, err error) {
	path := name
	if !strings.Contains(name, "/") {
		path = "/dev/" + name
	}
	for range maxLinks {
		to, err := os.Readlink(path)
		if err != nil {
			break // no link, or nothing
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(path), to)
		}
		path = to
	}
	if m := deviceName.FindStringSubmatch(path); m != nil {
		path = m[1]
	}
	index, err = ParsePath(path)
	if err != nil {
		return 0, fmt.Errorf("%q is not /dev/nbdN, nor a link to it", name)
	}
	return index, nil
}

// Device reads the state of one device.
func (h *Host) Device(index int) (Device, error) {
	d := Device{Index: index}
	dir := h.sysfs(d)
	sectors, err := readUint(filepath.Join(dir, "size"))
	if errors.Is(err, fs.ErrNotExist) {
		return d, fmt.Errorf("%s: %w", d.Path(), ErrNoDevice)
	}
	if err != nil {
		return d, err
	}
	d.Size = sectors * 512
	block, err := readUint(filepath.Join(dir, "queue", "logical_block_size"))
	if err != nil {
		return d, err
	}
	d.BlockSize = uint32(block)
	ro, err := readUint(filepath.Join(dir, "ro"))
	if err != nil {
		return d, err
	}
	d.ReadOnly = ro != 0
	// These two are there while the device is connected.
	if _, err := os.Stat(filepath.Join(dir, "pid")); err == nil {
		d.Connected = true
	}
	if b, err := os.ReadFile(filepath.Join(dir, "backend")); err == nil {
		d.Backend = strings.TrimSuffix(string(b), "\n")
	}
	return d, nil
}

// Devices are all nbd devices, by index. There are none without the module.
func (h *Host) Devices() ([]Device, error) {
	dirs, err := filepath.Glob(filepath.Join(h.Root, "/sys/block/nbd*"))
	if err != nil {
		return nil, err
	}
	var all []Device
	for _, dir := range dirs {
		index, err := ParsePath("/dev/" + filepath.Base(dir))
		if err != nil {
			continue
		}
		d, err := h.Device(index)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrNoDevice) {
			continue // gone meanwhile
		}
		if err != nil {
			return nil, err
		}
		all = append(all, d)
	}
	slices.SortFunc(all, func(a, b Device) int { return cmp.Compare(a.Index, b.Index) })
	return all, nil
}

// Find looks for the connected device with a backend identifier.
func (h *Host) Find(identifier string) (d Device, found bool, err error) {
	all, err := h.Devices()
	for _, d := range all {
		if d.Connected && d.Backend == identifier {
			return d, true, nil
		}
	}
	return Device{}, false, err
}

func (h *Host) sysfs(d Device) string { return filepath.Join(h.Root, "/sys/block", d.Name()) }

// numbers are the MAJOR:MINOR of the disk and its partitions.
func (h *Host) numbers(d Device) (map[string]string, error) {
	names := make(map[string]string)
	dir := h.sysfs(d)
	files, err := filepath.Glob(filepath.Join(dir, d.Name()+"p*", "dev"))
	if err != nil {
		return nil, err
	}
	for _, f := range append(files, filepath.Join(dir, "dev")) {
		b, err := os.ReadFile(f)
		if errors.Is(err, fs.ErrNotExist) {
			continue // a partition that is gone meanwhile
		}
		if err != nil {
			return nil, err
		}
		names[strings.TrimSpace(string(b))] = filepath.Base(filepath.Dir(f))
	}
	return names, nil
}

func readUint(path string) (uint64, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", path, err)
	}
	return n, nil
}
