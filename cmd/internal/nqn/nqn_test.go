package nqn_test

import (
	"strings"
	"testing"

	"rbd/cmd/internal/nqn"
	"rbd/wire"
)

// Protects users from access lists that let nobody in.
func TestCheck(t *testing.T) {
	const uuid = wire.UUIDNQNPrefix + "0d155e58-787f-4424-945d-c3ee523eb6ae"
	for name, word := range map[string]string{
		uuid: "",
		wire.UUIDNQNPrefix + strings.ToUpper(uuid[len(wire.UUIDNQNPrefix):]): "",
		"nqn.2026-11.org.example:host_Ä":                                     "",
		wire.DiscoveryNQN:                                                    "",
		uuid + "," + uuid:                                                    "comma",
		uuid + " ":                                                           "' '",
		" " + uuid:                                                           "' '",
		uuid + "\n":                                                          `'\n'`,
		"nqn.2026-11.org.example:a\u00a0b":                                   `'\u00a0'`,
		"nqn.2026-11.org.example:a\u0085b":                                   `'\u0085'`,
		uuid[:len(uuid)-1]:                                                   "8-4-4-4-12",
		uuid + "0":                                                           "8-4-4-4-12",
		strings.ReplaceAll(uuid, "e58-787f-", "e58787f"):                     "8-4-4-4-12",
		wire.UUIDNQNPrefix + "0d155e58787f4424945dc3ee523eb6ae": "8-4-4-4-12",
		wire.UUIDNQNPrefix: "8-4-4-4-12",
		"":                 "empty",
		"host":             "nqn.yyyy-mm",
	} {
		err := nqn.Check(name)
		if (err == nil) != (word == "") || err != nil && !strings.Contains(err.Error(), word) {
			t.Errorf("%q: %v, want %q", name, err, word)
		}
	}
}
