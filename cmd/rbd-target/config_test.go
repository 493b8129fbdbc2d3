package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rbd/cmd/internal/command"
	"rbd/cmd/internal/fabric"
)

// readConfig reads a text as a configuration file.
func readConfig(t *testing.T, text string) (s *settings, file string, err error) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "target.toml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s = &settings{fabrics: fabric.New()}
	return s, file, s.addConfig(file)
}

// A configuration file says the same as the command line.
func TestConfig(t *testing.T) {
	odd := filepath.Join(t.TempDir(), "ram:1M,ro") // a file, however it looks
	if err := os.WriteFile(odd, make([]byte, 512), 0o600); err != nil {
		t.Fatal(err)
	}
	s, _, err := readConfig(t, `
listen = ["iwarp://0.0.0.0:4420"]
allow-host = ["nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555"]
[[export]]
path = "/srv/a,b.img"
ro = true
[[export]]
backend = "ram"
size = "1G"
[[export]]
path = "`+odd+`"
nqn = "nqn.2026-11.org.example:odd"
size = 104857600
`)
	if err != nil {
		t.Fatal(err)
	}
	want := []exportSpec{
		{Path: "/srv/a,b.img", Backend: "file", ReadOnly: true, NQN: "nqn.2026-11.io.rbd:a,b.img"},
		{Backend: "ram", Size: 1 << 30, NQN: "nqn.2026-11.io.rbd:ram"},
		{Path: odd, Backend: "file", Size: 100 << 20, NQN: "nqn.2026-11.org.example:odd"},
	}
	if d := cmp.Diff(want, s.exports); d != "" || len(s.listen) != 1 || len(s.hosts) != 1 || s.anyHost {
		t.Errorf("%+v: %s", s, d)
	}
}

// Mistakes in a file are wrong usage, told with the file's name and the word that is
// wrong, and are not passed over.
func TestConfigRefuses(t *testing.T) {
	for text, word := range map[string]string{
		"liten = []": "liten", "[[export]]\nname='x'": "name", "[[export]]\npath='x'\nblock-size=7": "block-size", "[[export]]": "path", "listen = 3": "listen",
		"listen = ['h:http']":                               "listen: address",
		"listen = ['']":                                     "is empty",
		"listen = ['h:1?crc=yes']":                          "crc",
		"allow-host = ['nqn.2026-11.org.example:a ']":       "allow-host: host nqn",
		"[[export]]\npath='x'\nnqn='disk'":                  "export 1: nqn",
		"[[export]]\npath='x'\nnsid=1025":                   "1 to 1024",
		"[[export]]\npath='ram:10M'":                        `backend = "ram" with size = "10M"`,
		"[[export]]\npath='d.img,ro'":                       "ro is a setting of its own",
		"[[export]]\npath='d.img,size=1M'\nsize='1M'":       "size is a setting of its own",
		"[[export]]\npath='x'\nsize=1.5":                    "number of bytes",
		"[[export]]\npath='x'\nsize=0":                      "at least one block",
		"[[export]]\npath='x'\nsize=-1":                     "-1",
		"[[export]]\npath='x'\n[[export]]\nbackend='ram'\n": "export 2: backend ram needs a size",
	} {
		_, file, err := readConfig(t, text)
		var usage *command.UsageError
		if !errors.As(err, &usage) || !usage.InFile || !strings.Contains(err.Error(), word) || !strings.Contains(err.Error(), file) {
			t.Errorf("%q: %v, want a message with %q", text, err, word)
		}
	}
	var usage *command.UsageError
	if err := new(settings).addConfig("/no/such/file"); !errors.Is(err, fs.ErrNotExist) || errors.As(err, &usage) {
		t.Errorf("no file: %v", err)
	}
}
