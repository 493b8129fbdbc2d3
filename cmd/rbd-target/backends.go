package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"rbd/cmd/internal/command"
	"rbd/target"
	"rbd/target/backend"
	"rbd/wire"
)

// addExports opens the backends and gives them to the target, which closes them.
func (s *settings) addExports(t *target.Target) error {
	for i := range s.exports {
		e := &s.exports[i]
		if err := s.checkOnce(i); err != nil {
			return err
		}
		isNew := e.Size != 0 && isAbsent(e.Path)
		b, err := e.open()
		if err != nil {
			return err
		}
		if isNew {
			s.noteNewFile(e.Path)
		}
		s.backends = append(s.backends, b)
		if _, err := t.AddNamespace(target.Export{NQN: e.NQN, NSID: e.NSID, UUID: wire.UUID(e.UUID), Backend: b}); err != nil {
			return errors.Join(err, b.Close())
		}
	}
	return nil
}

// checkOnce refuses an export of a file that one before it has for writing: the lock
// would be said to be another program's. Those before it have been opened.
func (s *settings) checkOnce(i int) error {
	e := &s.exports[i]
	info, err := os.Stat(e.Path)
	if err != nil || e.ReadOnly {
		return nil
	}
	for _, other := range s.exports[:i] {
		if o, err := os.Stat(other.Path); err == nil && !other.ReadOnly && os.SameFile(o, info) {
			return command.Usagef("two exports are the file %s: it can be exported for writing once, and more often with ro", e.Path)
		}
	}
	return nil
}

// open makes the export's backend.
func (e *exportSpec) open() (b backend.Backend, err error) {
	switch e.Backend {
	case "ram":
		b, err = backend.NewRAM(e.Size, int(e.BlockSize))
	case "null":
		b, err = backend.NewNull(e.Size, int(e.BlockSize))
	default:
		return backend.OpenFile(e.Path, backend.FileOptions{ReadOnly: e.ReadOnly, CreateSize: e.Size, BlockSize: int(e.BlockSize)})
	}
	if err == nil && e.ReadOnly {
		b = backend.ReadOnly(b)
	}
	return b, err
}

// newFile is a file that this start has made.
type newFile struct {
	path string
	info os.FileInfo
}

func isAbsent(path string) bool {
	_, err := os.Stat(path)
	return path != "" && errors.Is(err, fs.ErrNotExist)
}

func (s *settings) noteNewFile(path string) {
	if info, err := os.Stat(path); err == nil {
		s.newFiles = append(s.newFiles, newFile{path, info})
	}
}

// removeNewFiles removes what a start has made that then failed, so that another one may
// ask for another size. It comes before any host was served, and while the files are
// locked; one that is not empty any more is not ours to remove.
func (s *settings) removeNewFiles() (err error) {
	for _, f := range s.newFiles {
		var st unix.Stat_t
		if now, e := os.Stat(f.path); e != nil || !os.SameFile(now, f.info) || unix.Stat(f.path, &st) != nil || st.Blocks != 0 {
			continue
		}
		if e := os.Remove(f.path); e != nil {
			err = errors.Join(err, fmt.Errorf("remove the new file again: %w", e))
		}
	}
	return err
}
