package wire

import "math/big"

// A Uint128 is one of the 16-byte counters and capacities of the Identify and log pages.
type Uint128 struct{ Lo, Hi uint64 }

// String gives the number in decimal.
func (u Uint128) String() string {
	n := new(big.Int).SetUint64(u.Hi)
	n.Lsh(n, 64)
	return n.Or(n, new(big.Int).SetUint64(u.Lo)).String()
}
