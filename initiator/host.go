package initiator

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/uuid"

	"rbd/wire"
)

// Host is the identity of this machine to targets. Both parts should name the
// same UUID: NQN is then nqn.2014-08.org.nvmexpress:uuid: and ID.
type Host struct {
	NQN string
	ID  wire.UUID
}

// NewHost makes a random identity.
func NewHost() Host { return hostOf(wire.UUID(uuid.New())) }

func hostOf(id wire.UUID) Host { return Host{NQN: wire.UUIDNQNPrefix + id.String(), ID: id} }

// MakeHost makes an identity of an NQN and an ID as users give them; either may
// be empty, and is then made of the other.
func MakeHost(nqn, id string) (Host, error) {
	h := Host{NQN: nqn}
	if id != "" {
		u, err := wire.ParseUUID(id)
		if err != nil {
			return Host{}, fmt.Errorf("host ID: %w", err)
		}
		h.ID = u
	}
	switch {
	case nqn == "" && id == "":
		return Host{}, errors.New("host identity: neither NQN nor ID given")
	case nqn == "":
		h = hostOf(h.ID)
	case id == "":
		h.ID = idOf(nqn)
	}
	return h, h.check()
}

// FindHost makes an identity of an NQN and an ID as users give them; either may be
// empty. What is not given is that of this machine, from the first of the directories
// that has one, as nvme-cli does it: the same machine keeps its ID under another NQN.
// If none has, it is made of the other part, and not kept.
func FindHost(nqn, id string, dirs ...string) (Host, error) {
	given, err := MakeHost(nqn, id)
	if err != nil || nqn != "" && id != "" {
		return given, err
	}
	for _, dir := range dirs {
		kept, err := readHost(dir)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return Host{}, err
		case nqn == "":
			given.NQN = kept.NQN
		default:
			given.ID = kept.ID
		}
		return given, nil
	}
	return given, nil
}

// idOf is the UUID in an NQN, or one made of the NQN's text: the same NQN always
// gets the same.
func idOf(nqn string) wire.UUID {
	if text, ok := strings.CutPrefix(nqn, wire.UUIDNQNPrefix); ok {
		if id, err := wire.ParseUUID(text); err == nil && !id.IsZero() {
			return id
		}
	}
	return wire.UUID(uuid.NewSHA1(uuid.NameSpaceURL, []byte(nqn)))
}

func (h Host) check() error {
	if err := wire.ValidNQN(h.NQN); err != nil {
		return fmt.Errorf("host NQN: %w", err)
	}
	if h.ID.IsZero() {
		return errors.New("host ID: all zeros are not allowed")
	}
	return nil
}

// The files that hold an identity, as nvme-cli names them.
const (
	hostNQNFile = "hostnqn"
	hostIDFile  = "hostid"
)

// LoadHost reads the identity from the files hostnqn and hostid of the first
// directory that has one of them. If none has, it makes an identity and keeps it
// in the last directory, which it creates if need be.
func LoadHost(dirs ...string) (Host, error) {
	if len(dirs) == 0 {
		return Host{}, errors.New("host identity: no directory to keep it in")
	}
	for _, dir := range dirs {
		h, err := readHost(dir)
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			return h, err
		}
	}
	return keepHost(dirs[len(dirs)-1])
}

// readHost reads a directory's identity; fs.ErrNotExist if it has none.
func readHost(dir string) (Host, error) {
	nqn, err := readLine(filepath.Join(dir, hostNQNFile))
	if err != nil {
		return Host{}, err
	}
	id, err := readLine(filepath.Join(dir, hostIDFile))
	if err != nil {
		return Host{}, err
	}
	if nqn == "" && id == "" {
		return Host{}, fmt.Errorf("host identity in %s: %w", dir, fs.ErrNotExist)
	}
	h, err := MakeHost(nqn, id)
	if err != nil {
		return Host{}, fmt.Errorf("host identity in %s: %w", dir, err)
	}
	return h, nil
}

// readLine is the first line of a file, "" if there is no such file.
func readLine(path string) (string, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("host identity: %w", err)
	}
	line, _, _ := bytes.Cut(b, []byte("\n"))
	return string(bytes.TrimSpace(line)), nil
}

// keepHost makes an identity and writes it to dir. When several processes do so
// at the same time, all get the one that was first.
func keepHost(dir string) (Host, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return Host{}, fmt.Errorf("keep the host identity: %w", err)
	}
	h := NewHost()
	// The NQN is the one that decides: its file appears whole or not at all.
	tmp, err := os.CreateTemp(dir, hostNQNFile+".*")
	if err != nil {
		return Host{}, fmt.Errorf("keep the host identity: %w", err)
	}
	defer func() { _ = os.Remove(tmp.Name()) }()
	_, err = fmt.Fprintln(tmp, h.NQN)
	if err = errors.Join(err, tmp.Chmod(0o644), tmp.Close()); err != nil {
		return Host{}, fmt.Errorf("keep the host identity: %w", err)
	}
	if err := os.Link(tmp.Name(), filepath.Join(dir, hostNQNFile)); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return readHost(dir)
		}
		return Host{}, fmt.Errorf("keep the host identity: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, hostIDFile), []byte(h.ID.String()+"\n"), 0o644); err != nil {
		return Host{}, fmt.Errorf("keep the host identity: %w", err)
	}
	return h, nil
}

// DefaultHostDirs are the directories for LoadHost: /etc/nvme, which nvme-cli
// uses, and one where this user may write. The first is there also with an error.
func DefaultHostDirs() ([]string, error) {
	const system = "/etc/nvme"
	if os.Geteuid() == 0 {
		return []string{system, "/var/lib/rbd"}, nil
	}
	config, err := os.UserConfigDir()
	if err != nil {
		return []string{system}, fmt.Errorf("host identity: %w", err)
	}
	return []string{system, filepath.Join(config, "rbd")}, nil
}
