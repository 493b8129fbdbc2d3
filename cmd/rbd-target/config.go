package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
	"github.com/google/uuid"

	"rbd/cmd/internal/command"
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
	Path      string     `toml:"path"`
	Backend   string     `toml:"backend"`
	NQN       string     `toml:"nqn"`
	NSID      uint32     `toml:"nsid"`
	ReadOnly  bool       `toml:"ro"`
	Size      configSize `toml:"size"`
	BlockSize uint32     `toml:"block-size"`
	UUID      string     `toml:"uuid"`
}

// configSize is a size as text, such as "10G", or a number of bytes.
type configSize int64

// UnmarshalTOML implements toml.Unmarshaler.
func (s *configSize) UnmarshalTOML(v any) error {
	switch v.(type) {
	case string, int64:
	default:
		return fmt.Errorf("size %v is neither a number of bytes nor text such as \"10G\"", v)
	}
	n, err := parseSize(fmt.Sprint(v))
	*s = configSize(n)
	return err
}

// addConfig reads a configuration file; a setting that is not known is an error.
func (s *settings) addConfig(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	if err := s.addText(string(text)); err != nil {
		return command.ConfigError(path, err)
	}
	return nil
}

func (s *settings) addText(text string) error {
	var c config
	md, err := toml.Decode(text, &c)
	if err != nil {
		return err
	}
	if extra := md.Undecoded(); len(extra) > 0 {
		return fmt.Errorf("unknown setting %q", extra[0].String())
	}
	if err := s.addListen(c.Listen); err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	if err := s.addHosts(c.AllowHost); err != nil {
		return fmt.Errorf("allow-host: %w", err)
	}
	s.anyHost = s.anyHost || c.AllowAnyHost
	for i, x := range c.Export {
		e, err := x.spec()
		if err != nil {
			return fmt.Errorf("export %d: %w", i+1, err)
		}
		s.exports = append(s.exports, e)
	}
	return nil
}

func (x configExport) spec() (e exportSpec, err error) {
	e = exportSpec{Path: x.Path, Backend: x.Backend, NQN: x.NQN, NSID: x.NSID, ReadOnly: x.ReadOnly, Size: int64(x.Size), BlockSize: x.BlockSize}
	if err := checkPath(x.Path); err != nil {
		return e, err
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

// checkPath refuses what is an EXPORT of the command line and no path, unless there is a
// file of that name: with size=, one would be made.
func checkPath(path string) error {
	if _, err := os.Lstat(path); err == nil {
		return nil
	}
	if kind, size, ok := strings.Cut(path, ":"); ok && (kind == "ram" || kind == "null") {
		return fmt.Errorf("path %q: in a configuration file this is backend = %q with size = %q, without path", path, kind, size)
	}
	for _, f := range splitCommas(path)[1:] {
		if key, _, ok := strings.Cut(f, "="); f == "ro" || ok && slices.Contains(settingNames, key) {
			return fmt.Errorf("path %q: in a configuration file, %s is a setting of its own", path, key)
		}
	}
	return nil
}
