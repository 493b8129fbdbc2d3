package target

import "rbd/wire"

// errorLogEntries is how many errors a controller remembers, ELPE plus one.
const errorLogEntries = 128

// errorLog is a ring of the latest errors.
type errorLog struct {
	entries []wire.ErrorLogEntry
	count   uint64
}

// add notes an error.
func (l *errorLog) add(e wire.ErrorLogEntry) {
	l.count++
	e.ErrorCount = l.count
	if len(l.entries) < errorLogEntries {
		l.entries = append(l.entries, e)
		return
	}
	l.entries[(l.count-1)%errorLogEntries] = e
}

// page is log page 01h, the latest error first.
func (l *errorLog) page() []byte {
	var b []byte
	for i := range uint64(len(l.entries)) {
		e := l.entries[(l.count-1-i)%errorLogEntries]
		b = e.Append(b)
	}
	return append(b, make([]byte, errorLogEntries*wire.ErrorLogEntrySize-len(b))...)
}

// logError notes a command that failed, and returns the status with which it is
// answered: one that says that the log has more.
func (c *controller) logError(qid uint16, sqe *wire.SQE, status wire.Status) wire.Status {
	status |= wire.StatusMore
	e := wire.ErrorLogEntry{SQID: qid, CID: sqe.CID, ErrorLocation: errorLocation(status), NSID: sqe.NSID,
		TRTYPE: wire.TransportRDMA, Opcode: sqe.Opcode}
	if qid != 0 && sqe.Opcode != wire.OpcodeFabrics {
		e.LBA = sqe.SLBA()
	}
	e.SetStatus(status)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.errorLog.add(e)
	return status
}
