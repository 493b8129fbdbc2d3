package backend

import "fmt"

// readOnly refuses every request that changes data.
type readOnly struct{ Backend }

// ReadOnly makes a backend that can only be read of one that could be written.
func ReadOnly(b Backend) Backend { return readOnly{b} }

func (r readOnly) Attributes() Attributes {
	a := r.Backend.Attributes()
	a.ReadOnly, a.VolatileCache, a.TrimGranularity = true, false, 0
	return a
}

func (readOnly) TryWriteAt([]byte, int64, Flags) error { return refuse(OpWrite) }

func (readOnly) WriteAt([]byte, int64, Flags) error { return refuse(OpWrite) }

// Flush has nothing to do: nothing was written.
func (readOnly) Flush() error { return nil }

func (readOnly) Trim(_, _ int64) error { return refuse(OpTrim) }

func (readOnly) WriteZeroes(_, _ int64, _ Flags) error { return refuse(OpWriteZeroes) }

func refuse(op Op) error { return fmt.Errorf("%s: %w", op, ErrReadOnly) }
