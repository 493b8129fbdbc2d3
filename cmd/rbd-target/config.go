package main

import (
	"fmt"

	"github.com/BurntSushi/toml"
	"github.com/google/uuid"

	"rbd/cmd/internal/nqn"
)

// config is the file that --config names. Its settings are added to those of the
// command line.
type config struct {
	Listen       []string       `toml:"listen"`
	AllowHost    []string       `toml:"allow-host"`
	AllowAnyHost bool           `toml:"allow-any-host"`
	Export       []configExport `toml:"export"`
}

type configExport struct {
	Path      string `toml:"path"`
	Backend   string `toml:"backend"`
	NQN       string `toml:"nqn"`
	NSID      uint32 `toml:"nsid"`
	ReadOnly  bool   `toml:"ro"`
	Size      string `toml:"size"`
	BlockSize uint32 `toml:"block-size"`
	UUID      string `toml:"uuid"`
}

// loadConfig reads a configuration file; a setting that is not known is an error.
func loadConfig(path string) (config, []exportSpec, error) {
	var c config
	md, err := toml.DecodeFile(path, &c)
	if err != nil {
		return c, nil, fmt.Errorf("configuration %s: %w", path, err)
	}
	if extra := md.Undecoded(); len(extra) > 0 {
		return c, nil, fmt.Errorf("configuration %s: unknown setting %q", path, extra[0].String())
	}
	for _, host := range c.AllowHost {
		if err := nqn.Check(host); err != nil {
			return c, nil, fmt.Errorf("configuration %s: allow-host: host nqn: %w", path, err)
		}
	}
	exports := make([]exportSpec, 0, len(c.Export))
	for i, x := range c.Export {
		e, err := x.spec()
		if err != nil {
			return c, nil, fmt.Errorf("configuration %s: export %d: %w", path, i+1, err)
		}
		exports = append(exports, e)
	}
	return c, exports, nil
}

func (x configExport) spec() (e exportSpec, err error) {
	e = exportSpec{Path: x.Path, Backend: x.Backend, NQN: x.NQN, NSID: x.NSID, ReadOnly: x.ReadOnly, BlockSize: x.BlockSize}
	if x.Size != "" {
		if e.Size, err = parseSize(x.Size); err != nil {
			return e, err
		}
	}
	if e.BlockSize != 0 && e.BlockSize != 512 && e.BlockSize != 4096 {
		return e, fmt.Errorf("block-size %d is neither 512 nor 4096", e.BlockSize)
	}
	if x.UUID != "" {
		if e.UUID, err = uuid.Parse(x.UUID); err != nil {
			return e, fmt.Errorf("uuid %q: %w", x.UUID, err)
		}
	}
	return e, e.complete()
}
