package verbstest

import (
	"context"
	"errors"
	"testing"

	"rbd/verbs"
)

var privateDataCases = []Case{
	{"PrivateData", testPrivateData},
	{"PrivateDataCopied", testPrivateDataCopied},
	{"PrivateDataTooLong", testPrivateDataTooLong},
	{"Reject", testReject},
	{"RejectTwice", testRejectTwice},
	{"ReadResources", testReadResources},
	{"ReadResourcesInvalid", testReadResourcesInvalid},
}

// wantPrivateData checks that what was sent has arrived, with nothing but the
// padding of the transport behind it: InfiniBand does not tell the length.
func wantPrivateData(t *testing.T, what string, got, want []byte) {
	t.Helper()
	WantBytes(t, "private data of the "+what, got[:min(len(got), len(want))], want)
	if !allBytes(got[min(len(got), len(want)):], 0) {
		t.Errorf("private data of the %s: %x behind its %d bytes", what, got, len(want))
	}
}

// Protects the protocols above, which say in private data who they are: it comes
// through in both directions, of every length.
func testPrivateData(t *testing.T, e *Env) {
	limit := e.Device.Attr().MaxPrivateData
	for _, n := range [][2]int{{0, 0}, {1, 0}, {0, 1}, {32, 32}, {limit, 1}, {1, limit}, {limit, limit}} {
		p := e.Pair(func(c, s *SideOpts) {
			c.Param.PrivateData, s.Param.PrivateData = Filled(n[0], 1), Filled(n[1], 2)
		})
		wantPrivateData(t, "request", p.Server.ID.Request().PrivateData, Filled(n[0], 1))
		wantPrivateData(t, "reply", p.Client.Result.PrivateData, Filled(n[1], 2))
		if r := p.Client.ID.Request(); len(r.PrivateData) != 0 || r.ResponderResources != 0 || r.InitiatorDepth != 0 {
			t.Errorf("request on the active side: %+v", r)
		}
	}
}

// Protects callers that reuse the slice: it was copied.
func testPrivateDataCopied(t *testing.T, e *Env) {
	l := e.Listen()
	data := Filled(20, 1)
	c := e.Active(l.Addr(), func(o *SideOpts) { o.Param.PrivateData = data })
	connected := e.Go(func() error { return c.Connect(e.Context()) })
	s := e.Passive(l, nil)
	answer := Filled(20, 2)
	s.param.PrivateData = answer
	s.Accept()
	if err := connected(); err != nil {
		t.Fatal(err)
	}
	fillByte(data, 0)
	fillByte(answer, 0)
	wantPrivateData(t, "request", s.ID.Request().PrivateData, Filled(20, 1))
	wantPrivateData(t, "reply", c.Result.PrivateData, Filled(20, 2))
}

// Protects from private data that would be cut.
func testPrivateDataTooLong(t *testing.T, e *Env) {
	long := make([]byte, e.Device.Attr().MaxPrivateData+1)
	l := e.Listen()
	c := e.Active(l.Addr(), func(o *SideOpts) { o.Param.PrivateData = long })
	err := c.Connect(e.Context())
	wantConnectFailed(e, c, err)
	e.WantErr("connect with too long private data", err, verbs.ErrInvalid)
	c = e.Active(l.Addr(), nil)
	connected := e.Go(func() error { return c.Connect(e.Context()) })
	s := e.Passive(l, nil)
	e.WantErr("reject with too long private data", s.ID.Reject(long), verbs.ErrInvalid)
	_, err = s.ID.Accept(e.Context(), verbs.ConnParam{PrivateData: long})
	e.WantErr("accept with too long private data", err, verbs.ErrInvalid)
	e.Destroy("CMID", s.ID.Destroy)
	wantConnectFailed(e, c, connected())
}

// Protects clients that have to say why they were refused: the reject's private
// data comes through, of every length.
func testReject(t *testing.T, e *Env) {
	l := e.Listen()
	for _, n := range []int{0, 1, 4, e.Device.Attr().MaxPrivateData} {
		c := e.Active(l.Addr(), nil)
		c.PostEmptyRecvs(1, 2)
		connected := e.Go(func() error { return c.Connect(e.Context()) })
		s := e.Passive(l, nil)
		s.PostEmptyRecvs(1, 2)
		if err := s.ID.Reject(Filled(n, 1)); err != nil {
			t.Fatalf("reject: %v", err)
		}
		err := connected()
		wantConnectFailed(e, c, err)
		var re *verbs.RejectError
		if !errors.As(err, &re) {
			t.Fatalf("connect when rejected: %v, want a *RejectError", err)
		}
		wantPrivateData(t, "reject", re.PrivateData, Filled(n, 1))
		if re.Reason != "" {
			t.Errorf("a reject of the peer's program has reason %q", re.Reason)
		}
		c.Recv.Flushed(1, 2)
	}
}

// Protects from answering twice.
func testRejectTwice(t *testing.T, e *Env) {
	l := e.Listen()
	c := e.Active(l.Addr(), nil)
	connected := e.Go(func() error { return c.Connect(e.Context()) })
	id := e.GetRequest(l)
	if err := id.Reject(nil); err != nil {
		t.Fatal(err)
	}
	e.WantErr("reject again", id.Reject(nil), verbs.ErrClosed, verbs.ErrState)
	_, err := id.Accept(e.Context(), verbs.ConnParam{})
	e.WantErr("accept when rejected", err, verbs.ErrClosed, verbs.ErrState)
	wantConnectFailed(e, c, connected())
}

// Protects READs from exceeding what the peer holds: each side's depth is
// lowered to the other's resources, and both are told the same. A provider may
// hold more than was asked for, up to the next power of two.
func testReadResources(t *testing.T, e *Env) {
	a := e.Device.Attr()
	limit := min(a.MaxQPRdAtom, a.MaxQPInitRdAtom)
	for _, tt := range []struct{ cRes, cDepth, sRes, sDepth, wantRes, wantDepth int }{
		{1, 1, 1, 1, 1, 1},
		{0, 0, 0, 0, 0, 0},
		{4, 4, 4, 4, 4, 4},
		{8, 2, 16, 16, 2, 8},
		{16, 16, 8, 2, 8, 2},
		{0, 4, 4, 4, 4, 0},
		{4, 0, 4, 4, 0, 4},
		{8, 5, 8, 3, 5, 3},
		{limit, limit, limit, limit, limit, limit},
	} {
		if max(tt.cRes, tt.cDepth, tt.sRes, tt.sDepth) > limit {
			continue
		}
		p := readPair(e, tt.cRes, tt.cDepth, tt.sRes, tt.sDepth)
		if r := p.Server.ID.Request(); r.ResponderResources != tt.cRes || r.InitiatorDepth != tt.cDepth {
			t.Errorf("%+v: the request is %+v", tt, r)
		}
		for _, s := range []*Side{p.Server, p.Client} {
			raised := e.MoreReads && s.Result.ResponderResources == tt.cDepth
			if r := s.Result; r.ResponderResources != tt.wantRes && !raised || r.InitiatorDepth != tt.wantDepth {
				t.Errorf("%+v: the %s is told the server's resources %d, depth %d", tt, s.name, r.ResponderResources, r.InitiatorDepth)
			}
		}
	}
	p := readPair(e, 3, 3, 3, 3)
	if r := p.Server.ID.Request(); r.ResponderResources < 3 || r.ResponderResources > 4 || r.InitiatorDepth != 3 {
		t.Errorf("resources 3 and depth 3: the request is %+v", r)
	}
	if p.Server.Result.InitiatorDepth != 3 || p.Client.Result.InitiatorDepth != 3 {
		t.Errorf("the server's depth of 3 has become %d, the client is told %d", p.Server.Result.InitiatorDepth, p.Client.Result.InitiatorDepth)
	}
}

func readPair(e *Env, cRes, cDepth, sRes, sDepth int) *Pair {
	e.T.Helper()
	return e.Pair(func(c, s *SideOpts) {
		c.Param = verbs.ConnParam{ResponderResources: cRes, InitiatorDepth: cDepth}
		s.Param = verbs.ConnParam{ResponderResources: sRes, InitiatorDepth: sDepth}
	})
}

// Protects from resources that the device does not have.
func testReadResourcesInvalid(t *testing.T, e *Env) {
	a := e.Device.Attr()
	l := e.Listen()
	for _, bad := range []verbs.ConnParam{
		{ResponderResources: -1}, {InitiatorDepth: -1},
		{ResponderResources: a.MaxQPRdAtom + 1}, {InitiatorDepth: a.MaxQPInitRdAtom + 1},
	} {
		c := e.Active(l.Addr(), func(o *SideOpts) { o.Param = bad })
		ctx, cancel := context.WithTimeout(e.Context(), 10*calm)
		err := c.Connect(ctx)
		cancel()
		wantConnectFailed(e, c, err)
		e.WantErr("connect with resources out of range", err, verbs.ErrInvalid)
		c = e.Active(l.Addr(), nil)
		connected := e.Go(func() error { return c.Connect(e.Context()) })
		s := e.Passive(l, nil)
		_, err = s.ID.Accept(e.Context(), bad)
		e.WantErr("accept with resources out of range", err, verbs.ErrInvalid)
		e.Destroy("CMID", s.ID.Destroy)
		wantConnectFailed(e, c, connected())
	}
}
