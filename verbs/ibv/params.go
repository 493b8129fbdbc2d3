package ibv

import (
	"fmt"
	"strconv"

	"rbd/verbs"
)

// params are the address parameters of this provider.
type params struct {
	device   string
	gidIndex int // -1 if it was not given
	tos      int // -1
}

// CheckAddr refuses an address with parameters that this provider does not take.
func CheckAddr(addr verbs.Addr) error {
	_, err := parseParams(addr)
	return err
}

// parseParams reads device=NAME, gid-index=N and tos=N.
func parseParams(addr verbs.Addr) (params, error) {
	o := params{gidIndex: -1, tos: -1}
	if addr.Fabric != Name {
		return o, fmt.Errorf("address %s: fabric %q is not %q: %w", addr, addr.Fabric, Name, verbs.ErrInvalid)
	}
	for key, values := range addr.Params {
		if len(values) != 1 {
			return o, fmt.Errorf("address %s: parameter %s is given %d times: %w", addr, key, len(values), verbs.ErrInvalid)
		}
		var err error
		switch value := values[0]; key {
		case "device":
			if o.device = value; value == "" {
				err = fmt.Errorf("%q is no device name", value)
			}
		case "gid-index":
			o.gidIndex, err = number(value, 255)
		case "tos":
			o.tos, err = number(value, 255)
		default:
			return o, fmt.Errorf("address %s: unknown parameter %q, known are device=NAME, gid-index=N and tos=N: %w", addr, key, verbs.ErrInvalid)
		}
		if err != nil {
			return o, fmt.Errorf("address %s: %s: %w: %w", addr, key, err, verbs.ErrInvalid)
		}
	}
	return o, nil
}

func number(s string, most uint64) (int, error) {
	n, err := strconv.ParseUint(s, 0, 16)
	if err != nil || n > most {
		return -1, fmt.Errorf("%q is not a number from 0 to %d", s, most)
	}
	return int(n), nil
}
