package backend

// Null reads zeros and forgets what is written, to measure everything but a
// disk.
type Null struct {
	size      int64
	blockSize int
}

// NewNull makes a null backend of size bytes; block size 0 means 512.
func NewNull(size int64, blockSize int) (*Null, error) {
	if blockSize == 0 {
		blockSize = defaultBlockSize
	}
	if err := checkGeometry("null", size, blockSize); err != nil {
		return nil, err
	}
	return &Null{size: size, blockSize: blockSize}, nil
}

// Attributes implements Backend.
func (b *Null) Attributes() Attributes {
	return Attributes{BlockSize: b.blockSize, TrimGranularity: b.blockSize, ReadsZeroAfterTrim: true, NonBlocking: true}
}

// Size implements Backend.
func (b *Null) Size() int64 { return b.size }

// Refresh implements Backend: the size is fixed.
func (b *Null) Refresh() (int64, error) { return b.size, nil }

// TryReadAt implements Backend.
func (b *Null) TryReadAt(p []byte, off int64) error { return b.ReadAt(p, off) }

// TryWriteAt implements Backend.
func (b *Null) TryWriteAt(p []byte, off int64, flags Flags) error { return b.WriteAt(p, off, flags) }

// ReadAt implements Backend.
func (b *Null) ReadAt(p []byte, off int64) error {
	if err := checkRange(OpRead, off, int64(len(p)), b.size); err != nil {
		return err
	}
	clear(p)
	return nil
}

// WriteAt implements Backend.
func (b *Null) WriteAt(p []byte, off int64, _ Flags) error {
	return checkRange(OpWrite, off, int64(len(p)), b.size)
}

// Flush implements Backend.
func (b *Null) Flush() error { return nil }

// Trim implements Backend.
func (b *Null) Trim(off, n int64) error { return checkRange(OpTrim, off, n, b.size) }

// WriteZeroes implements Backend.
func (b *Null) WriteZeroes(off, n int64, _ Flags) error {
	return checkRange(OpWriteZeroes, off, n, b.size)
}

// Close implements Backend.
func (b *Null) Close() error { return nil }
