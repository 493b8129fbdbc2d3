package wire

import (
	"encoding/binary"
	"fmt"
)

const (
	anaLogHeadSize  = 16
	anaLogGroupSize = 32
)

// LSPANAGroupsOnly is the log specific parameter RGO of the ANA log page: the groups come without their namespaces.
const LSPANAGroupsOnly uint8 = 1

// ANAState is the state of access to the namespaces of a group.
type ANAState uint8

// The states.
const (
	ANAOptimized      ANAState = 0x1
	ANANonOptimized   ANAState = 0x2
	ANAInaccessible   ANAState = 0x3
	ANAPersistentLoss ANAState = 0x4
	ANAChange         ANAState = 0xF
)

func (s ANAState) String() string {
	switch s {
	case ANAOptimized:
		return "optimized"
	case ANANonOptimized:
		return "non-optimized"
	case ANAInaccessible:
		return "inaccessible"
	case ANAPersistentLoss:
		return "persistent loss"
	case ANAChange:
		return "change"
	}
	return fmt.Sprintf("ANA state 0x%x", uint8(s))
}

// ANAGroup is one group of the ANA log page.
type ANAGroup struct {
	ID          uint32
	ChangeCount uint64
	State       ANAState
	NSIDs       []uint32
}

// ANALog is the Asymmetric Namespace Access log page, 0Ch (NVMe Base). Its length depends on its groups.
type ANALog struct {
	ChangeCount uint64
	Groups      []ANAGroup
}

// Parse decodes a whole page; what follows the last group is padding. A group that runs over the end is an error, so memory is bounded by the length of b.
func (a *ANALog) Parse(b []byte) error {
	if err := wantAtLeast("ana log page", b, anaLogHeadSize); err != nil {
		return err
	}
	a.ChangeCount = binary.LittleEndian.Uint64(b)
	a.Groups = nil
	groups := int(binary.LittleEndian.Uint16(b[8:]))
	b = b[anaLogHeadSize:]
	for range groups {
		if err := wantAtLeast("ana group", b, anaLogGroupSize); err != nil {
			return err
		}
		g := ANAGroup{
			ID:          binary.LittleEndian.Uint32(b),
			ChangeCount: binary.LittleEndian.Uint64(b[8:]),
			State:       ANAState(b[16]),
		}
		count := binary.LittleEndian.Uint32(b[4:])
		b = b[anaLogGroupSize:]
		if uint64(count) > uint64(len(b)/4) {
			return fmt.Errorf("ana group %d names %d namespaces, %d bytes are left", g.ID, count, len(b))
		}
		for ; count > 0; count, b = count-1, b[4:] {
			g.NSIDs = append(g.NSIDs, binary.LittleEndian.Uint32(b))
		}
		a.Groups = append(a.Groups, g)
	}
	return nil
}

// Append adds the page to b.
func (a *ANALog) Append(b []byte) []byte {
	b, head := extend(b, anaLogHeadSize)
	binary.LittleEndian.PutUint64(head, a.ChangeCount)
	binary.LittleEndian.PutUint16(head[8:], uint16(len(a.Groups)))
	for _, g := range a.Groups {
		var group []byte
		b, group = extend(b, anaLogGroupSize+4*len(g.NSIDs))
		binary.LittleEndian.PutUint32(group, g.ID)
		binary.LittleEndian.PutUint32(group[4:], uint32(len(g.NSIDs)))
		binary.LittleEndian.PutUint64(group[8:], g.ChangeCount)
		group[16] = uint8(g.State)
		for i, nsid := range g.NSIDs {
			binary.LittleEndian.PutUint32(group[anaLogGroupSize+4*i:], nsid)
		}
	}
	return b
}
