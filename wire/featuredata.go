package wire

import "time"

// TimestampSize is the length in bytes of the data of feature 0Eh.
const TimestampSize = 8

// Timestamp is the data of feature 0Eh (NVMe Base, Timestamp).
type Timestamp struct {
	Milliseconds uint64 // since 1970; 48 bits
	Attributes   uint8  // bit 0: the clock may have stopped; 3:1: 1 if a host has set it
	Reserved     uint8
}

// Parse decodes TimestampSize bytes.
func (t *Timestamp) Parse(b []byte) error {
	if err := wantSize("timestamp", b, TimestampSize); err != nil {
		return err
	}
	var v uint64
	u64(layout{b: b}, 0, &v)
	t.Milliseconds, t.Attributes, t.Reserved = v&(1<<48-1), uint8(v>>48), uint8(v>>56)
	return nil
}

// Append adds the data to b. Milliseconds keep their low 48 bits.
func (t *Timestamp) Append(b []byte) []byte {
	b, added := extend(b, TimestampSize)
	v := uint64(t.Reserved)<<56 | uint64(t.Attributes)<<48 | t.Milliseconds&(1<<48-1)
	u64(layout{b: added, encode: true}, 0, &v)
	return b
}

// Time is the moment that the timestamp means.
func (t *Timestamp) Time() time.Time { return time.UnixMilli(int64(t.Milliseconds & (1<<48 - 1))) }

// HostBehaviorSize is the length in bytes of the data of feature 16h.
const HostBehaviorSize = 512

// HostBehavior is the data of feature 16h: what the host can cope with (NVMe Base, Host Behavior Support). Reserved bytes are dropped by Parse and zero in Append.
type HostBehavior struct {
	ACRE   uint8 // 1: advanced command retry, CRD may be set in a Status
	ETDAS  uint8 // extended telemetry
	LBAFEE uint8 // extended LBA formats
	HDISNS uint8 // dispersed namespaces
	CDFE   uint16
}

func (h *HostBehavior) layout(l layout) {
	u8(l, 0, &h.ACRE)
	u8(l, 1, &h.ETDAS)
	u8(l, 2, &h.LBAFEE)
	u8(l, 3, &h.HDISNS)
	u16(l, 4, &h.CDFE)
}

// Parse decodes HostBehaviorSize bytes.
func (h *HostBehavior) Parse(b []byte) error {
	return parseFixed(h, "host behavior support", b, HostBehaviorSize)
}

// Append adds the data to b.
func (h *HostBehavior) Append(b []byte) []byte { return appendFixed(h, b, HostBehaviorSize) }
