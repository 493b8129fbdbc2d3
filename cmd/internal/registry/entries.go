package registry

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// askTime bounds the answer to a question.
const askTime = 5 * time.Second

// Entry is one process, alive or dead.
type Entry struct {
	Record
	// Alive: it answered. Otherwise the record is what it wrote last.
	Alive bool

	base string
}

// Entries are all processes of a folder, by their beginning.
func Entries(ctx context.Context, dir string) ([]Entry, error) {
	files, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for what is connected: %w", err)
	}
	var all []Entry
	for _, f := range files {
		name, ok := strings.CutSuffix(f.Name(), ".json")
		if !ok || !strings.HasPrefix(name, "connect-") {
			continue
		}
		e, err := read(ctx, filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // it has ended meanwhile
		}
		if err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b Entry) int { return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.PID, b.PID)) })
	return all, nil
}

// read asks a process, or reads what it left.
func read(ctx context.Context, base string) (Entry, error) {
	e := Entry{base: base}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	resp, err := ask(ctx, base+".sock", request{}, false)
	if err == nil {
		e.Record, e.Alive = resp.Record, true
		return e, nil
	}
	b, rerr := os.ReadFile(base + ".json")
	if rerr == nil {
		rerr = json.Unmarshal(b, &e.Record)
	}
	if rerr != nil {
		return e, fmt.Errorf("read what a process had connected: %s: %w", base+".json", rerr)
	}
	if !dead(err) { // it is there and does not answer
		e.Alive, e.State = true, "not answering"
	}
	return e, nil
}

// dead says whether the error of a connection means that nobody listens.
func dead(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED)
}

// ask sends one request. If it is to wait, it returns when a process that ends has,
// with its last response.
func ask(ctx context.Context, socket string, req request, wait bool) (resp response, err error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", socket)
	if err != nil {
		return resp, err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	b, err := json.Marshal(req)
	if err != nil {
		return resp, err
	}
	if _, err = c.Write(append(b, '\n')); err == nil {
		in := bufio.NewReader(io.LimitReader(c, 2*maxLine))
		resp, err = hear(in)
		if err == nil && resp.Ending && wait {
			told := resp.Outcome
			resp, err = hear(in)
			if errors.Is(err, io.EOF) && !told {
				err = nil // a program of before there was an outcome just closes
			} else if errors.Is(err, io.EOF) {
				err = errDied
			}
		}
	}
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return resp, err
}

// errDied: a process has not said how it has ended.
var errDied = errors.New("it was killed while it was ending: what was not flushed may be lost")

// hear takes one response.
func hear(in *bufio.Reader) (resp response, err error) {
	line, err := in.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &resp)
	}
	return resp, err
}

// Disconnect asks the process to end disks, and waits until it has; for a process
// that ends with them, until it is gone. The error is why it did not, or how it ended.
func (e Entry) Disconnect(ctx context.Context, d Disconnect) error {
	resp, err := ask(ctx, e.base+".sock", request{Disconnect: &d}, true)
	switch {
	case errors.Is(err, errDied):
		return fmt.Errorf("process %d: %w", e.PID, err)
	case err != nil:
		return fmt.Errorf("process %d does not answer: %w", e.PID, err)
	case resp.Error != "":
		return errors.New(resp.Error)
	}
	return nil
}

// Remove cleans up after a process that is dead.
func (e Entry) Remove() {
	os.Remove(e.base + ".sock")
	os.Remove(e.base + ".json")
}
