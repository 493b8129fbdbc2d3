package verbstest

import "rbd/verbs"

// Pair is a connection with both of its ends.
type Pair struct {
	Client, Server *Side
	e              *Env
}

// Pair connects two new sides. set, if not nil, changes their options.
func (e *Env) Pair(set func(client, server *SideOpts)) *Pair {
	e.T.Helper()
	l := e.Listen()
	defer e.Destroy("listener", l.Close)
	return e.PairOn(l, l.Addr(), set)
}

// PairOn is Pair by a listener that is there, which has the address.
func (e *Env) PairOn(l verbs.Listener, addr verbs.Addr, set func(client, server *SideOpts)) *Pair {
	e.T.Helper()
	client, server := e.newSideOpts(), e.newSideOpts()
	if set != nil {
		set(&client, &server)
	}
	c := e.Active(addr, func(o *SideOpts) { *o = client })
	connected := e.Go(func() error { return c.Connect(e.Context()) })
	s := e.Passive(l, func(o *SideOpts) { *o = server })
	s.Accept()
	if err := connected(); err != nil {
		e.T.Fatal(err)
	}
	return &Pair{Client: c, Server: s, e: e}
}

// PairOf is Pair with the same options for both sides.
func (e *Env) PairOf(set func(*SideOpts)) *Pair {
	e.T.Helper()
	return e.Pair(func(c, s *SideOpts) { set(c); set(s) })
}

// Flip is the pair with the roles exchanged.
func (p *Pair) Flip() *Pair { return &Pair{Client: p.Server, Server: p.Client, e: p.e} }

// Go runs f on a goroutine; the returned function waits for its result. If the case
// fails without having asked for it, the log tells how far f was: it may be the cause.
func (e *Env) Go(f func() error) (wait func() error) {
	result := make(chan error, 1)
	go func() { result <- f() }()
	asked := false
	e.T.Cleanup(func() {
		if !e.T.Failed() || asked {
			return
		}
		select {
		case err := <-result:
			e.T.Logf("what nobody waited for has ended with: %v", err)
		default:
			e.T.Log("what nobody waited for has not ended")
		}
	})
	return func() (err error) {
		e.T.Helper()
		asked = true
		e.Within("wait for a goroutine", func() { err = <-result })
		return err
	}
}

// Message sends the SGEs of the client to a receive of the server.
func (p *Pair) Message(from, to []verbs.SGE) verbs.WC {
	p.e.T.Helper()
	p.Server.PostRecv(verbs.RecvWR{ID: 7, SGEs: to})
	p.Client.Post(verbs.SendWR{ID: 8, Opcode: verbs.WRSend, Flags: verbs.SendSignaled, SGEs: from})
	wc := p.Server.Recv.OK(7, verbs.WCRecv)
	p.Client.Send.OK(8, verbs.WCSend)
	return wc
}

// Write writes the SGEs of the client to the server's memory, and returns when
// the data is there: a READ of nothing behind it has come back.
func (p *Pair) Write(from []verbs.SGE, addr uint64, rkey uint32) {
	p.e.T.Helper()
	p.Client.Post(
		verbs.SendWR{ID: 9, Opcode: verbs.WRRDMAWrite, Flags: verbs.SendSignaled, SGEs: from, RemoteAddr: addr, RKey: rkey},
		verbs.SendWR{ID: 10, Opcode: verbs.WRRDMARead, Flags: verbs.SendSignaled, RemoteAddr: addr, RKey: rkey})
	p.Client.Send.OK(9, verbs.WCRDMAWrite)
	p.Client.Send.OK(10, verbs.WCRDMARead)
}

// Read reads the server's memory to the SGEs of the client.
func (p *Pair) Read(to []verbs.SGE, addr uint64, rkey uint32) verbs.WC {
	p.e.T.Helper()
	p.Client.Post(verbs.SendWR{ID: 11, Opcode: verbs.WRRDMARead, Flags: verbs.SendSignaled, SGEs: to, RemoteAddr: addr, RKey: rkey})
	return p.Client.Send.OK(11, verbs.WCRDMARead)
}

// RoundTrip checks that the connection works: a message each way, a WRITE and a READ.
func (p *Pair) RoundTrip() {
	p.e.T.Helper()
	const n = 1000
	c, s := p.Client.Buffer(n, 1), p.Server.Buffer(n, 2)
	p.Message(c.All(), s.All())
	WantBytes(p.e.T, "message of the client", s.Mem, c.Mem)
	Fill(s.Mem, 3)
	p.Flip().Message(s.All(), c.All())
	WantBytes(p.e.T, "message of the server", c.Mem, s.Mem)
	Fill(c.Mem, 4)
	p.Write(c.All(), s.Addr(0), s.MR.RKey())
	WantBytes(p.e.T, "RDMA WRITE", s.Mem, c.Mem)
	Fill(s.Mem, 5)
	if wc := p.Read(c.All(), s.Addr(0), s.MR.RKey()); wc.ByteLen != n {
		p.e.T.Errorf("RDMA READ of %d bytes: byte_len %d", n, wc.ByteLen)
	}
	WantBytes(p.e.T, "RDMA READ", c.Mem, s.Mem)
}

// Quiet checks that no completion comes to either side for a short while.
func (p *Pair) Quiet() {
	p.e.T.Helper()
	p.e.Quiet(p.Client.Send, p.Client.Recv, p.Server.Send, p.Server.Recv)
}

// Ended waits until the connection has ended on both sides.
func (p *Pair) Ended() {
	p.e.T.Helper()
	p.Client.Ended()
	p.Server.Ended()
}
