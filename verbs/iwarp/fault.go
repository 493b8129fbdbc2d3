package iwarp

import (
	"errors"
	"fmt"
	"io"

	"rbd/verbs"
	"rbd/verbs/iwarp/internal/frame"
)

// fault is the reason why a connection ends before its time.
type fault struct {
	cause error
	// term tells the peer; nil when there is nothing to tell or no way to.
	term *frame.Terminate
	// told is what the peer told.
	told *remoteError
}

// peerFault is an error of the peer in the FPDU with that header.
func peerFault(code frame.TermCode, header []byte, format string, args ...any) *fault {
	t := frame.NewTerminate(code, header)
	return &fault{cause: fmt.Errorf("peer broke the protocol: "+format+" (%s)", append(args, code)...), term: &t}
}

// localFault is an error of this side.
func localFault(format string, args ...any) *fault {
	t := frame.NewTerminate(frame.TermLocalCatastrophic, nil)
	return &fault{cause: fmt.Errorf(format, args...), term: &t}
}

// lost is the end of the stream, or the socket's error.
func lost(err error) *fault { return &fault{cause: err} }

// remoteError is a Terminate of the peer.
type remoteError struct{ frame.Terminate }

func (e *remoteError) Error() string { return "peer terminated the connection: " + e.TermCode.String() }

// status is what the work request that the peer complains of completes with.
func (e *remoteError) status() verbs.WCStatus {
	switch {
	case e.Layer == 0 && e.Type == 1, e.Layer == 1 && e.Type == 1:
		return verbs.WCRemAccessErr
	case e.TermCode == frame.TermNoBuffer, e.TermCode == frame.TermLocalCatastrophic, e.TermCode == frame.TermDDPCatastrophic:
		return verbs.WCRemOpErr
	}
	return verbs.WCRemInvReqErr
}

// The codes for an inbound access that is refused, by layer.
var (
	taggedCodes = [...]frame.TermCode{badSTag: frame.TermTaggedSTag, badBounds: frame.TermTaggedBounds,
		badRights: frame.TermAccess, badDomain: frame.TermTaggedNotAssoc, badWrap: frame.TermTaggedWrap}
	readCodes = [...]frame.TermCode{badSTag: frame.TermReadSTag, badBounds: frame.TermReadBounds,
		badRights: frame.TermAccess, badDomain: frame.TermReadNotAssoc, badWrap: frame.TermReadWrap}
)

var (
	errTruncated = fmt.Errorf("the peer closed the connection in the middle of a message: %w", io.ErrUnexpectedEOF)
	errCQOverrun = errors.New("completion queue overrun")
)
