package verbstest

import (
	"errors"

	"rbd/verbs"
)

// deadKey is a key that no region of the case has.
const deadKey = 0x5eadbee5

// localFault are the statuses of a send request whose SGE can't be used.
func (e *Env) localFault() []verbs.WCStatus {
	return append(e.executed(), e.receiveFault(verbs.WCLocProtErr)...)
}

// executed are the statuses, besides success, of a request that was executed
// before another one failed here, or before the peer ended the connection.
func (e *Env) executed() []verbs.WCStatus {
	if e.VagueErrors {
		return []verbs.WCStatus{verbs.WCWRFlushErr, verbs.WCLocQPOpErr}
	}
	return nil
}

// receiveFault are the statuses of a receive that fails for a cause.
func (e *Env) receiveFault(cause verbs.WCStatus) []verbs.WCStatus {
	if e.VagueErrors {
		return []verbs.WCStatus{cause, verbs.WCLocQPOpErr, verbs.WCGeneralErr}
	}
	return []verbs.WCStatus{cause}
}

// beside runs f with a fresh pair, and checks that another connection of the
// same device goes on untouched.
func beside(e *Env, f func(p *Pair)) {
	e.T.Helper()
	other := e.Pair(nil)
	f(e.Pair(nil))
	other.Client.Up()
	other.Server.Up()
	other.RoundTrip()
}

// wantBroken checks that the connection ended on both sides, and that neither
// calls it an orderly end; one may, if faults are silent, and both, if errors are
// vague too.
func wantBroken(p *Pair) {
	p.e.T.Helper()
	orderly := 0
	for _, s := range []*Side{p.Client, p.Server} {
		if err := s.Ended(); errors.Is(err, verbs.ErrDisconnected) {
			if orderly++; !p.e.SilentFaults || orderly > 1 && !p.e.VagueErrors {
				p.e.T.Errorf("%s: an error ended the connection, and Err says: %v", s.name, err)
			}
		}
	}
}

// refused posts a request of the client that the server's provider must refuse,
// with others behind it. The request completes with one of the statuses, or, on
// a transport without acknowledgement, with success unless it is a READ. Then
// the connection ends on both sides and all other work is flushed.
func (p *Pair) refused(wr verbs.SendWR, statuses ...verbs.WCStatus) {
	p.e.T.Helper()
	p.Client.PostEmptyRecvs(70, 2)
	p.Server.PostEmptyRecvs(80, 2)
	wr.ID, wr.Flags = 40, verbs.SendSignaled
	p.Client.Post(wr)
	if wr.Opcode != verbs.WRRDMARead {
		statuses = append(statuses, verbs.WCSuccess)
	}
	statuses = append(statuses, p.e.executed()...)
	p.Client.Send.Fails(40, statuses...)
	wantBroken(p)
	p.Client.Post(verbs.SendWR{ID: 41, Opcode: verbs.WRRDMAWrite})
	p.Client.Send.Flushed(41, 1)
	p.Client.Recv.Flushed(70, 2)
	p.e.Quiet(p.Client.Send, p.Client.Recv)
}

// remoteFault is refused for a READ or WRITE with an address or key that the
// server does not allow. The receives of the server are flushed.
func (p *Pair) remoteFault(op verbs.WROpcode, sges []verbs.SGE, addr uint64, rkey uint32) {
	p.e.T.Helper()
	p.refused(verbs.SendWR{Opcode: op, SGEs: sges, RemoteAddr: addr, RKey: rkey}, verbs.WCRemAccessErr)
	p.Server.Recv.Flushed(80, 2)
}
