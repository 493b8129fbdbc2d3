package kernel

import (
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// unusedTime is how long a new socket may live without a request and still be
	// one that the kernel did not want.
	unusedTime = 300 * time.Millisecond
	// firstRetry and lastRetry bound the pauses between tries to replace a
	// connection.
	firstRetry = 100 * time.Millisecond
	lastRetry  = 10 * time.Second
)

// keep serves one connection, and replaces it for as long as the device lives.
func (a *Attachment) keep(p pair) {
	retry := firstRetry
	for {
		used, err := a.serve(p)
		if err == nil { // NBD_CMD_DISC
			a.end(ErrDetached)
		}
		if a.isEnding() {
			a.leave()
			return
		}
		if unwanted := !used && errors.Is(err, io.EOF); unwanted && a.leaveToOthers() {
			return // the kernel had no place for it
		} else if !unwanted {
			a.log.Warn("a connection of the kernel has ended; replacing it", "device", a.Path(), "reason", reason(err))
		}
		if used {
			retry = firstRetry
		}
		if p, err = a.replace(&retry); err != nil {
			if !a.leaveToOthers() {
				a.end(fmt.Errorf("%w: no connection is left", err))
				a.leave()
			}
			return
		}
	}
}

// serve serves one connection to its end, and says whether the kernel used it.
func (a *Attachment) serve(p pair) (used bool, err error) {
	socket, err := duplicate(p.near) // the server keeps its own to itself
	if err != nil {
		p.near.Close()
		return false, err
	}
	defer unix.Close(socket)
	var mark atomic.Bool
	start := time.Now()
	e := a.export
	e.Device = fencedDevice{Device: a.export.Device, fence: a.fence, socket: socket, used: &mark}
	err = a.server.ServeTransmission(p.near, e)
	return mark.Load() || time.Since(start) > unusedTime, err
}

// leaveToOthers ends the goroutine of a connection if there are others, and says
// whether there are.
func (a *Attachment) leaveToOthers() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.live < 2 {
		return false
	}
	a.live--
	return true
}

// replace gives the kernel a new socket in place of a dead one, and tries again
// until the attachment ends.
func (a *Attachment) replace(retry *time.Duration) (pair, error) {
	for {
		select {
		case <-a.cut:
			return pair{}, ErrDetached
		case <-time.After(*retry):
		}
		*retry = min(2**retry, lastRetry)
		d, err := a.Device()
		switch {
		case err == nil && !d.Connected, errors.Is(err, ErrNoDevice):
			a.end(ErrDetached)
			return pair{}, ErrDetached
		case err == nil && d.Backend != "" && d.Backend != a.opts.Identifier:
			a.end(fmt.Errorf("%w and belongs to %s now", ErrDetached, d.Backend))
			return pair{}, ErrDetached
		}
		p, err := newPair()
		if err == nil {
			err = a.host.control.reconfigure(&config{index: a.id().Index, identifier: a.opts.Identifier, sockets: []int{p.kernel}})
			if err == nil {
				closeKernel([]pair{p})
				return p, nil
			}
			closePairs([]pair{p})
		}
		if errors.Is(err, errNetlinkOnly) {
			return pair{}, err // the kernel goes on with the others
		}
		a.log.Warn("replace a connection", "device", a.Path(), "err", err)
	}
}

// reason says in words how a connection ended.
func reason(err error) string {
	if errors.Is(err, io.EOF) {
		return "the kernel closed it: an answer was overdue, or not what it expected; see its log"
	}
	return err.Error()
}
