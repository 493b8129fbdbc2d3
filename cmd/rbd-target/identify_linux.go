package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// identify looks whether the file is still the one at its path. If it is not, the export
// goes on with the file that is open, and all looks well until the target ends.
func (w *watcher) identify(x *watched) error {
	now, err := os.Stat(x.spec.Path)
	moved := ""
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		moved = "is gone"
	case err != nil:
		return fmt.Errorf("is it still the same file: %w", err)
	case !os.SameFile(x.file, now):
		moved = "is another file now"
	}
	if moved == x.moved {
		return nil
	}
	x.moved = moved
	if moved == "" {
		w.log.Info("exported file is at its path again", "path", x.spec.Path, "nqn", x.spec.NQN, "nsid", x.spec.NSID)
		return nil
	}
	w.log.Warn("exported file "+moved+"; the export goes on with the old one, whose data is lost when the target ends unless it has another name",
		"path", x.spec.Path, "nqn", x.spec.NQN, "nsid", x.spec.NSID)
	return nil
}
