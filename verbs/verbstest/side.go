package verbstest

import (
	"context"
	"fmt"

	"rbd/verbs"
)

// SideOpts say how a Side is made. The zero value of each field means what
// newSideOpts has.
type SideOpts struct {
	// Mode is that of both queues.
	Mode CQMode
	// OnSend and OnRecv, if set, are the handlers of the queues.
	OnSend, OnRecv func([]verbs.WC)
	// SendQueue and RecvQueue are used instead of new ones.
	SendQueue, RecvQueue *Queue
	CQDepth              int
	Cap                  verbs.QPCap
	SQSigAll             bool
	// PD is used instead of a new one.
	PD verbs.PD
	// Param is what the side connects or accepts with.
	Param verbs.ConnParam
}

func (e *Env) newSideOpts() SideOpts {
	a := e.Device.Attr()
	return SideOpts{
		CQDepth: min(256, a.MaxCQE),
		Cap: verbs.QPCap{
			MaxSendWR: min(64, a.MaxQPWR), MaxRecvWR: min(64, a.MaxQPWR),
			MaxSendSGE: min(4, a.MaxSGE), MaxRecvSGE: min(4, a.MaxSGE),
		},
		Param: verbs.ConnParam{
			ResponderResources: min(4, a.MaxQPRdAtom),
			InitiatorDepth:     min(4, a.MaxQPInitRdAtom),
		},
	}
}

// Side is one end of a connection, with all that belongs to it.
type Side struct {
	ID         verbs.CMID
	PD         verbs.PD
	QP         verbs.QP
	Send, Recv *Queue
	// Result is what Connect or Accept returned.
	Result verbs.ConnParam

	e       *Env
	name    string
	param   verbs.ConnParam
	regions []*Region
}

// Active makes a side that is about to connect to an address. set may be nil.
func (e *Env) Active(addr verbs.Addr, set func(*SideOpts)) *Side {
	e.T.Helper()
	return e.side("client", e.Resolve(addr), set)
}

// Passive takes a listener's next request and makes a side that is about to accept.
func (e *Env) Passive(l verbs.Listener, set func(*SideOpts)) *Side {
	e.T.Helper()
	return e.side("server", e.GetRequest(l), set)
}

func (e *Env) side(name string, id verbs.CMID, set func(*SideOpts)) *Side {
	e.T.Helper()
	o := e.newSideOpts()
	if set != nil {
		set(&o)
	}
	s := &Side{e: e, name: name, ID: id, PD: o.PD, Send: o.SendQueue, Recv: o.RecvQueue, param: o.Param}
	if s.PD == nil {
		s.PD = e.PD()
	}
	if s.Send == nil {
		s.Send = e.Queue(name+"'s send queue", o.Mode, o.CQDepth, o.OnSend)
	}
	if s.Recv == nil {
		s.Recv = e.Queue(name+"'s receive queue", o.Mode, o.CQDepth, o.OnRecv)
	}
	qp, err := id.CreateQP(s.PD, verbs.QPInitAttr{SendCQ: s.Send.CQ, RecvCQ: s.Recv.CQ, Cap: o.Cap, SQSigAll: o.SQSigAll})
	if err != nil {
		e.T.Fatalf("%s: create a QP: %v", name, err)
	}
	s.QP = qp
	e.T.Cleanup(s.Close)
	return s
}

// Close destroys the CMID with its QP and ends the side's regions. Domain and
// queues go with the case.
func (s *Side) Close() {
	s.e.T.Helper()
	s.e.Destroy(s.name+"'s CMID", s.ID.Destroy)
	for _, r := range s.regions {
		r.Close()
	}
}

// Region registers n bytes of fresh memory in the side's domain.
func (s *Side) Region(n int, access verbs.Access) *Region {
	s.e.T.Helper()
	r := s.e.region(s.PD, n, access)
	s.regions = append(s.regions, r)
	return r
}

// Buffer is Region with all rights, filled by Fill from seed.
func (s *Side) Buffer(n int, seed uint64) *Region {
	s.e.T.Helper()
	r := s.Region(n, AllAccess)
	Fill(r.Mem, seed)
	return r
}

// Connect connects with the side's parameters.
func (s *Side) Connect(ctx context.Context) error {
	p, err := s.ID.Connect(ctx, s.param)
	s.Result = p
	if err != nil {
		return fmt.Errorf("%s: connect: %w", s.name, err)
	}
	return nil
}

// Accept accepts with the side's parameters.
func (s *Side) Accept() {
	s.e.T.Helper()
	s.e.Within("accept", func() {
		p, err := s.ID.Accept(s.e.Context(), s.param)
		if err != nil {
			s.e.T.Errorf("%s: accept: %v", s.name, err)
		}
		s.Result = p
	})
}

// Post posts send requests.
func (s *Side) Post(wrs ...verbs.SendWR) {
	s.e.T.Helper()
	if err := s.QP.PostSend(wrs); err != nil {
		s.e.T.Fatalf("%s: %v", s.name, err)
	}
}

// PostRecv posts receives.
func (s *Side) PostRecv(wrs ...verbs.RecvWR) {
	s.e.T.Helper()
	if err := s.QP.PostRecv(wrs); err != nil {
		s.e.T.Fatalf("%s: %v", s.name, err)
	}
}

// PostEmptyRecvs posts n receives without memory, with the IDs first, first+1, …
func (s *Side) PostEmptyRecvs(first uint64, n int) {
	s.e.T.Helper()
	for i := range uint64(n) {
		s.PostRecv(verbs.RecvWR{ID: first + i})
	}
}

// Ended waits until the connection has ended, and checks what must be so then.
// It returns why it ended.
func (s *Side) Ended() error {
	s.e.T.Helper()
	select {
	case <-s.ID.Disconnected():
	case <-s.e.Context().Done():
		s.e.T.Fatalf("%s: the connection has not ended, QP in %v\n%s", s.name, s.QP.State(), stacks())
	}
	if st := s.QP.State(); st != verbs.QPStateERR {
		s.e.T.Errorf("%s: QP in %v after the end of the connection", s.name, st)
	}
	err := s.ID.Err()
	if err == nil {
		s.e.T.Errorf("%s: no error after the end of the connection", s.name)
	}
	return err
}

// Up checks that the connection has not ended.
func (s *Side) Up() {
	s.e.T.Helper()
	select {
	case <-s.ID.Disconnected():
		s.e.T.Errorf("%s: the connection has ended: %v", s.name, s.ID.Err())
	default:
	}
	if st := s.QP.State(); st != verbs.QPStateRTS {
		s.e.T.Errorf("%s: QP in %v, want RTS", s.name, st)
	}
}
