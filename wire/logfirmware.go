package wire

// FirmwareSlotLogSize is the length in bytes of the Firmware Slot Information log page.
const FirmwareSlotLogSize = 512

// FirmwareSlotLog is the Firmware Slot Information log page, 03h (NVMe Base).
type FirmwareSlotLog struct {
	AFI uint8      // active slot in bits 2:0, slot of the next reset in 6:4
	FRS [7][8]byte // revision in each slot, from slot 1 on; ASCII, zeros for none
}

func (f *FirmwareSlotLog) layout(l layout) {
	u8(l, 0, &f.AFI)
	for i := range f.FRS {
		octets(l, 8+8*i, f.FRS[i][:])
	}
}

// Parse decodes FirmwareSlotLogSize bytes.
func (f *FirmwareSlotLog) Parse(b []byte) error {
	return parseFixed(f, "firmware slot log page", b, FirmwareSlotLogSize)
}

// Append adds the page to b.
func (f *FirmwareSlotLog) Append(b []byte) []byte { return appendFixed(f, b, FirmwareSlotLogSize) }
