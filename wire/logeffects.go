package wire

// CommandEffectsLogSize is the length in bytes of the Commands Supported and Effects log page.
const CommandEffectsLogSize = 4096

// CommandEffects tells whether a command is supported and what it may change (NVMe Base, Commands Supported and Effects Data Structure).
type CommandEffects uint32

// The effects.
const (
	EffectSupported           CommandEffects = 1 << 0 // CSUPP
	EffectBlockContent        CommandEffects = 1 << 1 // LBCC: logical blocks may change
	EffectNamespace           CommandEffects = 1 << 2 // NCC: a namespace's capabilities may change
	EffectNamespaceInventory  CommandEffects = 1 << 3 // NIC
	EffectController          CommandEffects = 1 << 4 // CCC: the controller's capabilities may change
	EffectExclusiveNamespace  CommandEffects = 1 << 16
	EffectExclusiveController CommandEffects = 2 << 16
)

// CommandEffectsLog is the Commands Supported and Effects log page, 05h. Its arrays are indexed by opcode.
type CommandEffectsLog struct {
	Admin [256]CommandEffects
	IO    [256]CommandEffects
}

func (c *CommandEffectsLog) layout(l layout) {
	for i := range c.Admin {
		u32(l, 4*i, &c.Admin[i])
		u32(l, 1024+4*i, &c.IO[i])
	}
}

// Parse decodes CommandEffectsLogSize bytes.
func (c *CommandEffectsLog) Parse(b []byte) error {
	return parseFixed(c, "command effects log page", b, CommandEffectsLogSize)
}

// Append adds the page to b.
func (c *CommandEffectsLog) Append(b []byte) []byte { return appendFixed(c, b, CommandEffectsLogSize) }
