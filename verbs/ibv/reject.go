package ibv

import (
	"fmt"

	"rbd/verbs"
)

// rejectedByProgram is the reason of a reject by the peer's program (IBA, table
// 100: consumer reject).
const rejectedByProgram = 28

// rejectWords are the reasons for which the peer's connection manager refuses.
var rejectWords = map[int32]string{
	1: "the peer has no queue pair left", 3: "the peer has no resources left", 4: "the peer gave up waiting",
	5: "the peer does not support the request", 8: "nobody listens there", 9: "the peer has another transport",
	10: "the peer remembers an older connection; try again", 12: "the peer does not have that GID", 13: "the peer does not have that LID",
	24: "the peer's port does not take it", 26: "the path's MTU is larger than that of the peer's port; give both ends the same MTU",
	27: "the peer allows fewer RDMA READs", 29: "the peer does not take the RNR retry count",
}

// rejected is the error of a refused connection. iWARP gives an errno, and does
// not tell programs from those below them.
func rejected(iwarp bool, e cmEvent) error {
	r := &verbs.RejectError{PrivateData: e.conn.privateData}
	switch {
	case iwarp || e.status == rejectedByProgram:
	case e.status < 0:
		r.Reason = statusError(e.status).Error()
	default:
		if r.Reason = rejectWords[e.status]; r.Reason == "" {
			r.Reason = fmt.Sprintf("reason %d of the InfiniBand connection manager", e.status)
		}
	}
	return r
}
