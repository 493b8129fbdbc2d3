package image

import (
	"fmt"
	"io"
)

// File types of a mode, as in stat.
const (
	modeDir  = 0o040000
	modeFile = 0o100000
)

// archive writes files in the format that the kernel reads as initial RAM disk:
// "newc" of cpio (Documentation/driver-api/early-userspace/buffer-format.rst).
type archive struct {
	w   io.Writer
	ino int
	err error
}

func (a *archive) add(name string, mode int, data []byte) {
	a.ino++
	const magic = "070701"
	nlink, mtime := 1, 0
	fields := []int{a.ino, mode, 0, 0, nlink, mtime, len(data), 0, 0, 0, 0, len(name) + 1, 0}
	head := magic
	for _, f := range fields {
		head += fmt.Sprintf("%08X", f)
	}
	a.write([]byte(head + name + "\x00"))
	a.pad(len(head) + len(name) + 1)
	a.write(data)
	a.pad(len(data))
}

// finish writes the entry that ends the archive.
func (a *archive) finish() { a.add("TRAILER!!!", 0, nil) }

// pad fills up to a multiple of four after n bytes.
func (a *archive) pad(n int) { a.write(make([]byte, -n&3)) }

func (a *archive) write(b []byte) {
	if a.err == nil {
		_, a.err = a.w.Write(b)
	}
}
