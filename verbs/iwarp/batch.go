package iwarp

import (
	"golang.org/x/sys/unix"

	"rbd/internal/sockio"
	"rbd/verbs/iwarp/internal/frame"
)

const (
	// maxBatchBytes is where a batch ends: one system call's worth.
	maxBatchBytes = 1 << 20
	maxBatchIovs  = 512
	// copyLimit is the largest piece of payload that is copied beside its header
	// rather than given to the kernel in an iovec of its own.
	copyLimit = 256
	arenaSize = 64 << 10
	// txStageSize is the arena with CRC on, when all payload goes through it.
	txStageSize = 256 << 10
	// smallMSS: below it FPDUs are laid within TCP segments, as network adapters
	// and Soft-iWARP like them. Above (loopback) they are as large as can be, and
	// may straddle.
	smallMSS = 16 << 10
	maxFPDU  = frame.MaxULPDU &^ 7
	minMSS   = 512
	// minCut is the least payload for which a message is cut at a segment's end.
	minCut = 64
)

// writer is the part of stream that a batch needs.
type writer interface {
	TryWritev(iov []unix.Iovec, eor bool) (int, error)
}

// transmitter builds FPDUs into a batch and writes it. It belongs to the holder
// of the transmit token.
type transmitter struct {
	crc    bool
	mss    int
	limit  int  // of an FPDU
	strict bool // an FPDU stays within a segment

	// The batch.
	arena []byte // headers, trailers, small payload
	run   int    // start of the bytes in arena that have no iovec yet
	iov   []unix.Iovec
	pins  []*mr  // regions that iov refers to, acquired while pinned
	ends  []int  // where in the batch its FPDUs end
	marks []mark // where its messages end
	size  int
	room  int // bytes left in the TCP segment

	pinned bool

	// Writing it.
	rest    []unix.Iovec
	sent    int
	told    int  // marks that taken has told
	realign bool // the next write goes to the end of the segment only
	part    []unix.Iovec

	// The messages in progress.
	sqOpen  bool // the request at sq.next has begun
	sqOff   uint64
	sqCur   sgeCursor
	sqSent  uint32 // requests before it are in batches that were sent
	irqNext uint32 // the inbound read to answer next
	irqOff  uint32 // what was answered of it
	irqTurn bool
	sendMSN uint32
	readMSN uint32
	fault   *fault // that of the message after the batch
}

// mark is the state of the batch where a message ends: when it is sent up to
// end, the requests before sq are out.
type mark struct {
	end                   int
	sq                    uint32
	arena, run, iov, pins int
}

func (t *transmitter) init(q *qp, l link) {
	*t = transmitter{crc: l.crc, mss: max(l.mss, minMSS), sqSent: q.sq.head, sendMSN: 1, readMSN: 1}
	if t.strict, t.limit = t.mss < smallMSS, maxFPDU; t.strict {
		t.limit = t.mss &^ 7
	}
	size := arenaSize
	if t.crc {
		size = txStageSize
	}
	t.arena = make([]byte, 0, size)
	t.iov = make([]unix.Iovec, 0, maxBatchIovs)
	t.part = make([]unix.Iovec, 0, maxBatchIovs)
	t.pins = make([]*mr, 0, maxBatchIovs)
	t.reset()
}

// reset empties the batch.
func (t *transmitter) reset() {
	t.unpin()
	t.pins = t.pins[:0]
	t.arena, t.run = t.arena[:0], 0
	t.iov, t.rest, t.ends, t.marks = t.iov[:0], nil, t.ends[:0], t.marks[:0]
	t.size, t.sent, t.told, t.room = 0, 0, 0, t.mss
	t.realign, t.pinned = false, true
}

// unsent says whether a batch waits to be written.
func (t *transmitter) unsent() bool { return t.size > t.sent }

// unfinished says whether the stream ends within an FPDU.
func (t *transmitter) unfinished() bool {
	return t.unsent() && t.sent > 0 && t.fpduEnd() != t.sent
}

// fpduEnd is the end of the FPDU that the last byte sent belongs to.
func (t *transmitter) fpduEnd() int {
	for _, e := range t.ends {
		if e >= t.sent {
			return e
		}
	}
	return t.size
}

// unpin leaves the batch's regions for the time of a wait, and pin enters them
// again; it is false when one has ended.
func (t *transmitter) unpin() {
	if !t.pinned {
		return
	}
	for _, m := range t.pins {
		m.release()
	}
	t.pinned = len(t.pins) == 0 // an empty batch is about to be filled
}

func (t *transmitter) pin() bool {
	if t.pinned {
		return true
	}
	for i, m := range t.pins {
		if !m.acquire() {
			for _, p := range t.pins[:i] {
				p.release()
			}
			return false
		}
	}
	t.pinned = true
	return true
}

// fit says how much of a message's left bytes of payload the next FPDU takes.
// more is false when the batch must be sent first.
func (t *transmitter) fit(header int, left uint64) (n int, more bool) {
	free := cap(t.arena) - len(t.arena) - header - frame.CRCSize - 3
	if t.size >= maxBatchBytes || len(t.iov)+maxSGE+2 > cap(t.iov) || free < maxSGE*copyLimit {
		return 0, false
	}
	n = t.limit - header - frame.CRCSize
	if t.crc {
		n = min(n, free&^7)
	}
	if uint64(n) > left {
		n = int(left)
	}
	size := header + n + frame.Pad(header+n) + frame.CRCSize
	switch {
	case t.strict && size > t.room:
	case !t.strict && t.room > frame.TaggedSize && t.room < header:
		return 0, false
	case !t.strict && t.crc && t.room < size && t.room > header+n:
	default:
		return n, true
	}
	// Cut at the end of the segment, if that is worth a header.
	cut := (t.room - header - frame.CRCSize) &^ 3
	if cut < minCut || left <= copyLimit {
		return 0, false
	}
	return min(cut, n), true
}

// end ends the FPDU that began at start in the arena.
func (t *transmitter) end(start, header, payload int) {
	if t.crc {
		t.arena = frame.AppendTrailer(t.arena, start, true)
	} else {
		t.arena = append(t.arena, trailers[frame.Pad(header+payload)]...)
	}
	n := header + payload + frame.Pad(header+payload) + frame.CRCSize
	t.size += n
	t.ends = append(t.ends, t.size)
	for t.room -= n; t.room <= 0; {
		t.room += t.mss
	}
}

// trailers are padding and a zero CRC field, by the size of the padding.
var trailers = [4][]byte{make([]byte, 4), make([]byte, 5), make([]byte, 6), make([]byte, 7)}

// rollBack drops what follows the last mark.
func (t *transmitter) rollBack() {
	m := t.marks[len(t.marks)-1]
	for _, p := range t.pins[m.pins:] {
		p.release()
	}
	t.arena, t.run, t.iov, t.pins, t.size = t.arena[:m.arena], m.run, t.iov[:m.iov], t.pins[:m.pins], m.end
}

// taken is the last mark that the sent part of the batch has passed. ok is false
// when it has passed none that was not told before.
func (t *transmitter) taken() (m mark, ok bool) {
	n := t.told
	for n < len(t.marks) && t.marks[n].end <= t.sent {
		n++
	}
	if n == t.told {
		return m, false
	}
	t.told = n
	return t.marks[n-1], true
}

// refer adds payload by reference. The region is pinned already.
func (t *transmitter) refer(b []byte, m *mr) {
	t.closeRun()
	t.iov = append(t.iov, sockio.Iovec(b))
	t.pins = append(t.pins, m)
}

// closeRun gives the bytes at the arena's end their iovec.
func (t *transmitter) closeRun() {
	if len(t.arena) > t.run {
		t.iov = append(t.iov, sockio.Iovec(t.arena[t.run:]))
		t.run = len(t.arena)
	}
}

// seal makes the batch ready for write.
func (t *transmitter) seal() {
	t.closeRun()
	t.rest = t.iov
}

// write sends the batch as far as the socket takes it. Every call ends its last
// TCP segment, so that the next FPDU begins one. If FPDUs stay within segments,
// the segment in which a short write has ended is filled up first, as it was laid
// out: the rest of the batch begins one then, too, whether TCP had sent the piece or
// waits for more of it.
func (t *transmitter) write(w writer) error {
	for t.unsent() {
		iov := t.rest
		if t.realign {
			iov = t.upTo(min(t.mss-t.sent%t.mss, t.size-t.sent))
		}
		n, err := w.TryWritev(iov, true)
		if err != nil {
			return err
		}
		t.sent += n
		t.rest = sockio.Advance(t.rest, n)
		t.realign = t.strict && t.unsent() && t.sent%t.mss != 0
	}
	return nil
}

// upTo is the beginning of what is left to write, n bytes long.
func (t *transmitter) upTo(n int) []unix.Iovec {
	t.part = t.part[:0]
	for _, v := range t.rest {
		if int(v.Len) >= n {
			v.SetLen(n)
			return append(t.part, v)
		}
		t.part = append(t.part, v)
		n -= int(v.Len)
	}
	return t.part
}

// terminate writes a Terminate, if the socket takes it now.
func (t *transmitter) terminate(w writer, term *frame.Terminate) {
	t.reset()
	t.arena = term.Append(t.arena)
	t.arena = frame.AppendTrailer(t.arena, 0, t.crc)
	t.size = len(t.arena)
	t.seal()
	// The connection ends anyway: what can't be told now is not told.
	_ = t.write(w)
}
