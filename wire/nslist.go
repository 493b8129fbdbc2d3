package wire

import "encoding/binary"

// MaxNSList is the number of identifiers that one namespace list holds.
const MaxNSList = IdentifySize / 4

// TooManyChangedNamespaces is the only entry of a Changed Namespace List that had no room for all.
const TooManyChangedNamespaces = NSIDAll

// An NSList is a list of namespace identifiers in increasing order, at most MaxNSList: the data of Identify CNS 02h and of the Changed Namespace
// List log page (NVMe Base, Namespace List). A list that is full may go on: ask again from its last identifier on.
type NSList []uint32

// Parse decodes IdentifySize bytes: the identifiers up to the first 0. It reuses the room of the receiver.
func (n *NSList) Parse(b []byte) error {
	if err := wantSize("namespace list", b, IdentifySize); err != nil {
		return err
	}
	*n = (*n)[:0]
	for ; len(b) > 0; b = b[4:] {
		nsid := binary.LittleEndian.Uint32(b)
		if nsid == 0 {
			break
		}
		*n = append(*n, nsid)
	}
	return nil
}

// Append adds the list to b as IdentifySize bytes, padded with zeros. Identifiers beyond MaxNSList are left out.
func (n NSList) Append(b []byte) []byte {
	b, added := extend(b, IdentifySize)
	for i, nsid := range n[:min(len(n), MaxNSList)] {
		binary.LittleEndian.PutUint32(added[4*i:], nsid)
	}
	return b
}
