package target

import (
	"testing"

	"rbd/target/backend"
	"rbd/verbs"
	"rbd/wire"
)

// closedLoop executes the same command again and again without allocating.
type closedLoop struct {
	q     *hostQueue
	sends []verbs.SendWR
	recvs []verbs.RecvWR
	wcs   [16]verbs.WC
}

func newClosedLoop(q *hostQueue, capsule []byte) *closedLoop {
	mem := q.mem[:len(capsule)]
	copy(mem, capsule)
	return &closedLoop{q: q,
		sends: []verbs.SendWR{{Opcode: verbs.WRSend, Flags: verbs.SendSignaled, SGEs: []verbs.SGE{{Addr: verbs.AddrOf(mem), Length: uint32(len(mem)), LKey: q.mr.LKey()}}}},
		recvs: []verbs.RecvWR{{SGEs: []verbs.SGE{{Length: wire.CQESize, LKey: q.mr.LKey()}}}},
	}
}

func (l *closedLoop) run(t testing.TB) {
	q := l.q
	if err := q.qp.PostSend(l.sends); err != nil {
		t.Fatal(err)
	}
	for left := 2; left > 0; {
		n := q.cq.Poll(l.wcs[:])
		if n == 0 {
			if err := q.cq.ReqNotify(); err != nil {
				t.Fatal(err)
			}
			if n = q.cq.Poll(l.wcs[:]); n == 0 {
				if err := q.cq.Wait(t.Context()); err != nil {
					t.Fatal(err)
				}
				continue
			}
		}
		for i := range l.wcs[:n] {
			wc := &l.wcs[i]
			if wc.Status != verbs.WCSuccess {
				t.Fatal(wc.Status)
			}
			left--
			if wc.Opcode == verbs.WCRecv {
				b := q.response(int(wc.ID & 0xFFFF))
				var cqe wire.CQE
				if err := cqe.Parse(b); err != nil || !cqe.Status.OK() {
					t.Fatal(err, cqe.Status)
				}
				l.recvs[0].ID, l.recvs[0].SGEs[0].Addr = wc.ID, verbs.AddrOf(b)
				if err := q.qp.PostRecv(l.recvs); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// hotCommands are the capsules whose execution must not allocate.
func hotCommands(q *hostQueue) map[string][]byte {
	inCapsule := wire.RangeSQE(wire.IOWrite, 1, 0, 8)
	inCapsule.SGL = wire.OffsetSGL(0, 4096)
	capsule := func(sqe wire.SQE) []byte { return sqe.Append(nil) }
	return map[string][]byte{
		"read 4 KiB":             capsule(q.rangeCmd(wire.IORead, 0, 8)),
		"read 128 KiB":           capsule(q.rangeCmd(wire.IORead, 0, 256)),
		"write 4 KiB":            capsule(q.rangeCmd(wire.IOWrite, 0, 8)),
		"write 128 KiB":          capsule(q.rangeCmd(wire.IOWrite, 0, 256)),
		"write 4 KiB in capsule": append(capsule(inCapsule), make([]byte, 4096)...),
		"flush":                  capsule(wire.FlushSQE(1)),
	}
}

// TestIODoesNotAllocate protects the hot path, the provider's included: inline on
// memory and on a file, and through the workers.
func TestIODoesNotAllocate(t *testing.T) {
	for _, c := range []struct {
		name string
		make func(t *testing.T) backend.Backend
	}{
		{"ram", mustRAM},
		{"file", func(t *testing.T) backend.Backend {
			f, err := backend.OpenFile(t.TempDir()+"/disk", backend.FileOptions{CreateSize: 1 << 20})
			if err != nil {
				t.Fatal(err)
			}
			return f
		}},
		{"workers", func(t *testing.T) backend.Backend {
			return backend.Intercept(mustRAM(t), func(backend.Op, int64, int64) error { return nil })
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := newEnv(t)
			e.add(c.make(t), nil)
			_, cntlid := e.admin(testNQN)
			q := e.io(cntlid, 1, 16)
			for name, capsule := range hotCommands(q) {
				l := newClosedLoop(q, capsule)
				for range 20 {
					l.run(t)
				}
				if n := testing.AllocsPerRun(200, func() { l.run(t) }); n != 0 {
					t.Errorf("%s: %v allocations", name, n)
				}
			}
		})
	}
}
