package nqn

import (
	"fmt"
	"strings"
	"unicode"

	"rbd/wire"
)

// Check refuses what the standard refuses, and what is a mistake in all likelihood: hosts
// and targets compare NQNs byte by byte (NVMe Base, NVMe Qualified Names), so a name with
// one blank too many is the name of nobody, and nothing else would tell.
func Check(nqn string) error {
	i := strings.IndexFunc(nqn, func(r rune) bool { return r == ',' || unicode.IsSpace(r) || unicode.IsControl(r) })
	if i >= 0 {
		r := []rune(nqn[i:])[0]
		if r == ',' {
			return fmt.Errorf("%q has a comma; one NQN each", nqn)
		}
		return fmt.Errorf("%q has the character %q in it", nqn, r)
	}
	if err := wire.ValidNQN(nqn); err != nil {
		return err
	}
	// The case of the digits is the host's choice: there are hosts that have their name
	// from firmware in capitals.
	if id, ok := strings.CutPrefix(nqn, wire.UUIDNQNPrefix); ok {
		if _, err := wire.ParseUUID(id); err != nil || len(id) != len("00000000-0000-0000-0000-000000000000") {
			return fmt.Errorf("%q: what follows uuid: is not a UUID of the form 8-4-4-4-12", nqn)
		}
	}
	return nil
}
