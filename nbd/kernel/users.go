package kernel

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// User is one who keeps a device from being detached.
type User struct {
	// What is the disk or partition that is used, nbdN or nbdNpM.
	What string
	// How is in words: "mounted on /mnt", "open in process 12 (fio)".
	How string
	// Transient: udev looks at the device, and will be done soon.
	Transient bool
}

func (u User) String() string { return u.What + " is " + u.How }

// BusyError is why a device was not detached.
type BusyError struct {
	Device Device
	Users  []User
}

func (e *BusyError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s is in use", e.Device.Path())
	for i, u := range e.Users {
		b.WriteString([]string{": ", "; "}[min(i, 1)])
		b.WriteString(u.String())
		if i == 7 && len(e.Users) > 8 {
			fmt.Fprintf(&b, "; and %d more", len(e.Users)-8)
			break
		}
	}
	return b.String()
}

// Users lists who uses a device or one of its partitions: mounts in any mount
// namespace, swap, devices above it (device mapper, md, loop), and open files.
func (h *Host) Users(d Device) ([]User, error) {
	numbers, err := h.numbers(d)
	if err != nil {
		return nil, err
	}
	var users []User
	users = append(users, h.mounts(numbers)...)
	users = append(users, h.swaps(numbers)...)
	users = append(users, h.above(d, numbers)...)
	users = append(users, h.openFiles(numbers)...)
	return users, nil
}

// mounts reads /proc/PID/mountinfo, once for each mount namespace.
func (h *Host) mounts(numbers map[string]string) []User {
	seen := make(map[string]bool)
	files, _ := filepath.Glob(filepath.Join(h.Root, "/proc/[0-9]*/mountinfo"))
	var users []User
	for _, f := range files {
		ns, err := os.Readlink(filepath.Join(filepath.Dir(f), "ns/mnt"))
		if err != nil || seen[ns] {
			continue
		}
		seen[ns] = true
		b, err := os.ReadFile(f)
		if err != nil {
			continue // the process has ended
		}
		for line := range bytes.Lines(b) {
			if u, ok := mountOf(string(line), numbers); ok && !slices.Contains(users, u) {
				users = append(users, u)
			}
		}
	}
	return users
}

// mountOf reads a line of mountinfo. File systems such as btrfs have a device
// number of their own: those are found by their source.
func mountOf(line string, numbers map[string]string) (User, bool) {
	before, after, ok := strings.Cut(line, " - ")
	fields, rest := strings.Fields(before), strings.Fields(after)
	if !ok || len(fields) < 5 || len(rest) < 2 {
		return User{}, false
	}
	what, found := numbers[fields[2]]
	if !found {
		for _, name := range numbers {
			if rest[1] == "/dev/"+name {
				what, found = name, true
			}
		}
	}
	return User{What: what, How: "mounted on " + unescape(fields[4])}, found
}

// unescape undoes the octal escapes of blanks in /proc files.
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

func (h *Host) swaps(numbers map[string]string) (users []User) {
	b, err := os.ReadFile(filepath.Join(h.Root, "/proc/swaps"))
	if err != nil {
		return nil
	}
	for in := bufio.NewScanner(bytes.NewReader(b)); in.Scan(); {
		file, _, _ := strings.Cut(in.Text(), " ")
		for _, name := range numbers {
			if file == "/dev/"+name {
				users = append(users, User{What: name, How: "used as swap"})
			}
		}
	}
	return users
}

// above lists the block devices that stand on the device.
func (h *Host) above(d Device, numbers map[string]string) (users []User) {
	for _, name := range numbers {
		dir := h.sysfs(d)
		if name != d.Name() {
			dir = filepath.Join(dir, name)
		}
		holders, _ := filepath.Glob(filepath.Join(dir, "holders", "*"))
		for _, holder := range holders {
			holder = filepath.Base(holder)
			if b, err := os.ReadFile(filepath.Join(h.Root, "/sys/block", holder, "dm/name")); err == nil {
				holder += " (" + strings.TrimSpace(string(b)) + ")"
			}
			users = append(users, User{What: name, How: "part of " + holder})
		}
	}
	loops, _ := filepath.Glob(filepath.Join(h.Root, "/sys/block/loop*/loop/backing_file"))
	for _, f := range loops {
		b, err := os.ReadFile(f)
		if err != nil {
			continue
		}
		for _, name := range numbers {
			if strings.TrimSpace(string(b)) == "/dev/"+name {
				users = append(users, User{What: name, How: "behind " + filepath.Base(filepath.Dir(filepath.Dir(f)))})
			}
		}
	}
	return users
}

// openFiles looks through the open files of all processes but this one.
func (h *Host) openFiles(numbers map[string]string) (users []User) {
	processes, _ := filepath.Glob(filepath.Join(h.Root, "/proc/[0-9]*"))
	self := strconv.Itoa(os.Getpid())
	for _, dir := range processes {
		pid := filepath.Base(dir)
		if pid == self {
			continue
		}
		files, err := os.ReadDir(filepath.Join(dir, "fd"))
		if err != nil {
			continue // the process has ended, or is not ours to look at
		}
		for _, f := range files {
			name, ok := h.opened(filepath.Join(dir, "fd", f.Name()), numbers)
			if !ok {
				continue
			}
			comm, _ := os.ReadFile(filepath.Join(dir, "comm"))
			command := strings.TrimSpace(string(comm))
			u := User{What: name, How: fmt.Sprintf("open in process %s (%s)", pid, command), Transient: isUdev(command)}
			if !slices.Contains(users, u) {
				users = append(users, u)
			}
		}
	}
	return users
}

// opened says which of the devices a descriptor is open on. The link's text is
// looked at first: a stat of a file of a dead network file system may hang.
func (h *Host) opened(link string, numbers map[string]string) (string, bool) {
	target, err := os.Readlink(link)
	if err != nil || !strings.Contains(target, "nbd") {
		return "", false
	}
	var st unix.Stat_t
	if err := unix.Stat(link, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFBLK {
		return "", false
	}
	name, ok := numbers[fmt.Sprintf("%d:%d", unix.Major(st.Rdev), unix.Minor(st.Rdev))]
	return name, ok
}

func isUdev(command string) bool {
	return command == "(udev-worker)" || command == "systemd-udevd" || command == "udevd"
}
