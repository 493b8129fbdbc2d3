package runtimedir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Path is the folder's name: $RUNTIME_DIRECTORY where systemd made one, /run/rbd
// for root, $XDG_RUNTIME_DIR/rbd for others.
func Path() (string, error) {
	return path(os.Getenv, os.Geteuid())
}

func path(getenv func(string) string, euid int) (string, error) {
	if d := getenv("RUNTIME_DIRECTORY"); d != "" {
		first, _, _ := strings.Cut(d, ":") // systemd lists all of RuntimeDirectory=
		return first, nil
	}
	if euid == 0 {
		return "/run/rbd", nil
	}
	if d := getenv("XDG_RUNTIME_DIR"); d != "" {
		return filepath.Join(d, "rbd"), nil
	}
	return "", errors.New("no folder for sockets: XDG_RUNTIME_DIR is not set")
}

// Make makes the folder, for its owner alone, and returns its name.
func Make() (string, error) {
	d, err := Path()
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(d, 0o700); err != nil {
		return "", fmt.Errorf("make the folder for sockets: %w", err)
	}
	return d, nil
}
