package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"github.com/BurntSushi/toml"
	"github.com/urfave/cli/v2"

	"rbd/cmd/internal/command"
)

// readConfig takes the options of --config that the command line does not have. A
// key is the long name of an option.
func readConfig(c *cli.Context) error {
	path := c.String("config")
	if path == "" {
		return nil
	}
	var values map[string]any
	if _, err := toml.DecodeFile(path, &values); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("--config: there is no file %s", path)
		}
		if pathErr := (*fs.PathError)(nil); errors.As(err, &pathErr) {
			return fmt.Errorf("--config: %w", err)
		}
		return command.Usagef("--config %s: %v", path, err)
	}
	known := make(map[string]bool)
	for _, f := range c.Command.Flags {
		known[f.Names()[0]] = true
	}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if !known[key] || key == "config" || key == "help" {
			return command.Usagef("--config %s: there is no option %q", path, key)
		}
		switch values[key].(type) {
		case string, int64, bool:
		default:
			return command.Usagef("--config %s: %s is neither text nor a number nor true or false", path, key)
		}
		if c.IsSet(key) {
			continue
		}
		if err := c.Set(key, fmt.Sprint(values[key])); err != nil {
			return command.Usagef("--config %s: %s = %v: %v", path, key, values[key], err)
		}
	}
	return nil
}
