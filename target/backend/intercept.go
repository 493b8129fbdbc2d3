package backend

// gate is a Backend around a Backend that asks pass before every request. pass may
// wait, so the Try methods leave everything to the calls that may block, and each
// request is asked about once.
type gate struct {
	Backend
	pass func(op Op, off, n int64) error
}

// Intercept calls hook before every request. An error that it returns is the
// request's answer. The hook may block.
func Intercept(b Backend, hook func(op Op, off, n int64) error) Backend {
	return &gate{Backend: b, pass: hook}
}

func (g *gate) Attributes() Attributes {
	a := g.Backend.Attributes()
	a.NonBlocking = false
	return a
}

func (g *gate) TryReadAt([]byte, int64) error { return ErrWouldBlock }

func (g *gate) TryWriteAt([]byte, int64, Flags) error { return ErrWouldBlock }

func (g *gate) ReadAt(p []byte, off int64) error {
	if err := g.pass(OpRead, off, int64(len(p))); err != nil {
		return err
	}
	return g.Backend.ReadAt(p, off)
}

func (g *gate) WriteAt(p []byte, off int64, flags Flags) error {
	if err := g.pass(OpWrite, off, int64(len(p))); err != nil {
		return err
	}
	return g.Backend.WriteAt(p, off, flags)
}

func (g *gate) Flush() error {
	if err := g.pass(OpFlush, 0, 0); err != nil {
		return err
	}
	return g.Backend.Flush()
}

func (g *gate) Trim(off, n int64) error {
	if err := g.pass(OpTrim, off, n); err != nil {
		return err
	}
	return g.Backend.Trim(off, n)
}

func (g *gate) WriteZeroes(off, n int64, flags Flags) error {
	if err := g.pass(OpWriteZeroes, off, n); err != nil {
		return err
	}
	return g.Backend.WriteZeroes(off, n, flags)
}
