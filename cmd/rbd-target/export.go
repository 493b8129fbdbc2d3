package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"rbd/cmd/internal/command"
	"rbd/cmd/internal/nqn"
	"rbd/cmd/internal/size"
	"rbd/wire"
)

// nqnPrefix begins the NQN of an export that names none.
const nqnPrefix = "nqn.2026-11.io.rbd:"

// maxNSID is the largest number of a namespace that a target takes.
const maxNSID = 1024

// settingNames are those that have a value.
var settingNames = []string{"nqn", "nsid", "size", "backend", "block-size", "uuid"}

// exportSpec is one export as the command line or the configuration file has it.
type exportSpec struct {
	// Path is the file or device; empty for ram and null.
	Path string
	// Backend is file, ram or null.
	Backend  string
	NQN      string
	NSID     uint32 // 0: the next free one of the subsystem
	ReadOnly bool
	// Size is that of a ram or null export, or of a file to be made; 0 if not given.
	Size      int64
	BlockSize uint32 // 0: the backend's choice
	UUID      uuid.UUID
}

// parseExport reads EXPORT: PATH[,key=value]..., with two commas for one that
// belongs to the path or a value. The order of the settings does not matter.
func parseExport(s string) (exportSpec, error) {
	fields := splitCommas(s)
	e := exportSpec{Path: fields[0]}
	seen := map[string]bool{}
	for _, f := range fields[1:] {
		key, value, hasValue := strings.Cut(f, "=")
		if seen[key] {
			return e, command.Usagef("export %q: %s is given twice", s, key)
		}
		seen[key] = true
		if err := e.set(key, value, hasValue); err != nil {
			return e, command.Usagef("export %q: %v", s, err)
		}
	}
	err := e.setMemory()
	if err == nil {
		err = e.complete()
	}
	if err != nil {
		return e, command.Usagef("export %q: %v", s, err)
	}
	return e, nil
}

// setMemory reads ram:SIZE or null:SIZE in place of a path.
func (e *exportSpec) setMemory() (err error) {
	kind, text, ok := strings.Cut(e.Path, ":")
	switch {
	case !ok || kind != "ram" && kind != "null":
		return nil
	case e.Backend != "" && e.Backend != kind:
		return fmt.Errorf("%s: and backend=%s contradict each other; a file of that name is ./%s", kind, e.Backend, e.Path)
	case e.Size != 0:
		return fmt.Errorf("two sizes: the one of a %s: export is behind the colon, without size=", kind)
	}
	e.Path, e.Backend = "", kind
	e.Size, err = parseSize(text)
	return err
}

func splitCommas(s string) []string {
	parts := strings.Split(strings.ReplaceAll(s, ",,", "\x00"), ",")
	for i := range parts {
		parts[i] = strings.ReplaceAll(parts[i], "\x00", ",")
	}
	return parts
}

func (e *exportSpec) set(key, value string, hasValue bool) (err error) {
	if key == "ro" {
		if hasValue {
			return fmt.Errorf("ro takes no value")
		}
		e.ReadOnly = true
		return nil
	}
	if value == "" && slices.Contains(settingNames, key) {
		return fmt.Errorf("%s needs a value", key)
	}
	switch key {
	case "nqn":
		e.NQN = value
	case "nsid":
		n, err := strconv.ParseUint(value, 10, 32)
		if err != nil || n == 0 || n > maxNSID {
			return fmt.Errorf("nsid %q is not a number from 1 to %d", value, maxNSID)
		}
		e.NSID = uint32(n)
	case "size":
		e.Size, err = parseSize(value)
	case "backend":
		e.Backend = value
	case "block-size":
		n, err := parseSize(value)
		if err != nil || (n != 512 && n != 4096) {
			return fmt.Errorf("block-size %q is neither 512 nor 4096", value)
		}
		e.BlockSize = uint32(n)
	case "uuid":
		if e.UUID, err = uuid.Parse(value); err != nil || e.UUID == uuid.Nil {
			return fmt.Errorf("uuid %q is not a UUID", value)
		}
	default:
		return fmt.Errorf("unknown setting %q; known are nqn, nsid, ro, size, backend, block-size, uuid; a comma in a path is written twice", key)
	}
	return err
}

// complete fills in what was left out and refuses what does not fit together.
func (e *exportSpec) complete() error {
	if e.NSID > maxNSID {
		return fmt.Errorf("nsid %d is not a number from 1 to %d", e.NSID, maxNSID)
	}
	name := filepath.Base(e.Path)
	switch e.Backend {
	case "", "file":
		e.Backend = "file"
		if e.Path == "" {
			return fmt.Errorf("no path")
		}
	case "ram", "null":
		if e.Size == 0 {
			return fmt.Errorf("backend %s needs a size: %s:SIZE in place of the path, or size=", e.Backend, e.Backend)
		}
		if e.Path == "" {
			name = e.Backend
		}
		e.Path = "" // it is no more than a name
	default:
		return fmt.Errorf("backend %q is not one of file, ram, null", e.Backend)
	}
	if e.NQN != "" {
		if err := nqn.Check(e.NQN); err != nil {
			return fmt.Errorf("nqn: %w", err)
		}
		if e.NQN == wire.DiscoveryNQN {
			return fmt.Errorf("nqn: %s is that of discovery", e.NQN)
		}
		return nil
	}
	e.NQN = nqnPrefix + name
	if err := wire.ValidNQN(e.NQN); err != nil { // blanks and commas are all right in names of files
		return fmt.Errorf("nqn= is needed, as the file's name gives none: %w", err)
	}
	return nil
}

func parseSize(s string) (int64, error) {
	n, err := size.Parse(s)
	if err == nil && n == 0 {
		err = fmt.Errorf("size %q: a disk has at least one block", s)
	}
	return n, err
}

// assignNSIDs gives each export without one the next free nsid of its subsystem,
// and refuses an nsid that is given twice.
func assignNSIDs(exports []exportSpec) error {
	type id struct {
		nqn  string
		nsid uint32
	}
	taken := map[id]bool{}
	for _, e := range exports {
		k := id{e.NQN, e.NSID}
		if e.NSID != 0 && taken[k] {
			return command.Usagef("two exports are namespace %d of %s", e.NSID, e.NQN)
		}
		taken[k] = true
	}
	for i := range exports {
		if exports[i].NSID != 0 {
			continue
		}
		k := id{exports[i].NQN, 1}
		for taken[k] {
			k.nsid++
		}
		taken[k] = true
		exports[i].NSID = k.nsid
	}
	return nil
}
