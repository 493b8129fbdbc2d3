package initiator

import (
	"context"
	"errors"
	"fmt"

	"rbd/verbs"
	"rbd/wire"
)

const (
	// maxDiscoveryEntries bounds the discovery log that is read, 8 MiB.
	maxDiscoveryEntries = 8192
	// discoveryTries is how often the log is read again because it changed.
	discoveryTries = 10
)

// DiscoveryLog is what a discovery controller has for a host.
type DiscoveryLog struct {
	// Generation changes whenever the log does (GENCTR).
	Generation uint64
	Entries    []wire.DiscoveryLogEntry
}

// Discover asks the discovery controller at addr what subsystems there are for
// this host (log page 70h). Errors are of the type *ConnectError, or say which
// option is wrong.
func Discover(ctx context.Context, p verbs.Provider, addr verbs.Addr, opts Options) (DiscoveryLog, error) {
	opts.SubNQN = wire.DiscoveryNQN
	opts.KeepAlive, opts.NoReconnect = -1, true // the connection is short
	opts, err := opts.withDefaults()
	if err != nil {
		return DiscoveryLog{}, err
	}
	c := newController(p, addr, opts)
	var log DiscoveryLog
	a, err := c.associate(ctx, func(a *association) []step {
		return append(a.adminSteps(), step{StageDiscovery, func(ctx context.Context) (err error) {
			log, err = a.discoveryLog(ctx)
			return err
		}})
	})
	if err == nil && c.run(a) == nil {
		if err := c.Close(ctx); err != nil {
			opts.Logger.Debug("discovery controller", "addr", addr.String(), "err", err) // the answer is there
		}
		return log, nil
	}
	if e := c.discard(err); e != nil {
		opts.Logger.Error("free what a discovery had", "addr", addr.String(), "err", e)
	}
	return log, err
}

// errLogChanged: the discovery log changed while it was read.
var errLogChanged = errors.New("it changes while it is read")

// discoveryLog reads the log until one reading found it unchanged.
func (a *association) discoveryLog(ctx context.Context) (DiscoveryLog, error) {
	for range discoveryTries {
		log, err := a.readDiscoveryLog(ctx)
		if !errors.Is(err, errLogChanged) {
			return log, err
		}
	}
	return DiscoveryLog{}, fmt.Errorf("discovery log: %w", errLogChanged)
}

func (a *association) readDiscoveryLog(ctx context.Context) (log DiscoveryLog, err error) {
	before, err := a.discoveryHeader(ctx)
	if err != nil {
		return log, err
	}
	switch {
	case before.RECFMT != 0:
		return log, fmt.Errorf("discovery log of record format %d, want 0", before.RECFMT)
	case before.NUMREC > maxDiscoveryEntries:
		return log, fmt.Errorf("discovery log of %d entries, at most %d are read", before.NUMREC, maxDiscoveryEntries)
	}
	most := min(a.info.maxTransfer, adminTransfer) / wire.DiscoveryLogEntrySize
	entries := make([]wire.DiscoveryLogEntry, before.NUMREC)
	for next := uint64(0); next < before.NUMREC; {
		n := min(before.NUMREC-next, most)
		off := wire.DiscoveryLogHeaderSize + next*wire.DiscoveryLogEntrySize
		data, err := a.logPage(ctx, wire.LogDiscovery, 0, off, int(n)*wire.DiscoveryLogEntrySize, false)
		if isStatus(err) && next > 0 {
			return log, errLogChanged // it has become shorter
		}
		if err != nil {
			return log, err
		}
		for i := range n {
			at := i * wire.DiscoveryLogEntrySize
			if err := entries[next+i].Parse(data[at : at+wire.DiscoveryLogEntrySize]); err != nil {
				return log, err
			}
		}
		next += n
	}
	after, err := a.discoveryHeader(ctx)
	if err != nil {
		return log, err
	}
	if after != before {
		return log, errLogChanged
	}
	return DiscoveryLog{Generation: after.GENCTR, Entries: entries}, nil
}

func (a *association) discoveryHeader(ctx context.Context) (h wire.DiscoveryLogHeader, err error) {
	data, err := a.logPage(ctx, wire.LogDiscovery, 0, 0, wire.DiscoveryLogHeaderSize, false)
	if err != nil {
		return h, err
	}
	return h, h.Parse(data)
}
