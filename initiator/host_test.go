package initiator

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"rbd/wire"
)

const testUUID = "0f3ab0ce-6e1c-4b7b-9d6a-1f6f2f3c4d5e"

// Protects the match of NQN and ID: each is made of the other, in a stable way.
func TestMakeHost(t *testing.T) {
	for _, tc := range []struct{ name, nqn, id, wantNQN, wantID, err string }{
		{name: "both", nqn: "nqn.2020-01.org.x:a", id: testUUID, wantNQN: "nqn.2020-01.org.x:a", wantID: testUUID},
		{name: "NQN with UUID", nqn: wire.UUIDNQNPrefix + testUUID, wantNQN: wire.UUIDNQNPrefix + testUUID, wantID: testUUID},
		{name: "ID only", id: testUUID, wantNQN: wire.UUIDNQNPrefix + testUUID, wantID: testUUID},
		{name: "NQN without UUID", nqn: "nqn.2020-01.org.x:a", wantNQN: "nqn.2020-01.org.x:a", wantID: idOf("nqn.2020-01.org.x:a").String()},
		{name: "bad NQN", nqn: "host1", err: "host NQN"},
		{name: "bad ID", id: "1234", err: "host ID"},
		{name: "zero ID", id: strings.Repeat("0", 32), err: "all zeros"},
		{name: "nothing", err: "neither"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h, err := MakeHost(tc.nqn, tc.id)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("got %v, want %q", err, tc.err)
				}
				return
			}
			if err != nil || h.NQN != tc.wantNQN || h.ID.String() != tc.wantID {
				t.Errorf("got %+v, %v", h, err)
			}
		})
	}
}

// One part that is given does not change the other one, which is this machine's: a
// target allows hosts by their NQN, and -I alone must not make another host of it.
func TestFindHost(t *testing.T) {
	const other = "aaaaaaaa-6e1c-4b7b-9d6a-1f6f2f3c4d5e"
	kept, partial, none := t.TempDir(), t.TempDir(), t.TempDir()
	write(t, kept, "hostnqn", "nqn.2020-01.org.x:kept\n")
	write(t, kept, "hostid", testUUID+"\n")
	write(t, partial, "hostid", testUUID+"\n")
	for _, tc := range []struct{ name, dir, nqn, id, wantNQN, wantID string }{
		{"ID given", kept, "", other, "nqn.2020-01.org.x:kept", other},
		{"NQN given", kept, "nqn.2020-01.org.x:a", "", "nqn.2020-01.org.x:a", testUUID},
		{"both given", kept, "nqn.2020-01.org.x:a", other, "nqn.2020-01.org.x:a", other},
		{"hostid only", partial, "nqn.2020-01.org.x:a", "", "nqn.2020-01.org.x:a", testUUID},
		{"no files, ID given", none, "", other, wire.UUIDNQNPrefix + other, other},
		{"no files, NQN given", none, wire.UUIDNQNPrefix + other, "", wire.UUIDNQNPrefix + other, other},
	} {
		h, err := FindHost(tc.nqn, tc.id, none, tc.dir)
		if err != nil || h.NQN != tc.wantNQN || h.ID.String() != tc.wantID {
			t.Errorf("%s: %+v, %v", tc.name, h, err)
		}
	}
	if files, _ := os.ReadDir(none); len(files) != 0 {
		t.Errorf("kept: %v", files)
	}
	write(t, none, "hostnqn", "rubbish")
	if _, err := FindHost("", other, none); err == nil || !strings.Contains(err.Error(), none) {
		t.Errorf("broken file: %v", err)
	}
}

func write(t *testing.T, dir, name, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Protects the kept identity: read where it is, made once where it is not, also
// when several processes start at once, and trouble is told, not papered over.
func TestLoadHost(t *testing.T) {
	t.Run("read from the first that has one", func(t *testing.T) {
		a, b := t.TempDir(), t.TempDir()
		write(t, b, "hostnqn", wire.UUIDNQNPrefix+testUUID+"\n")
		h, err := LoadHost(a, b, t.TempDir())
		if err != nil || h.ID.String() != testUUID {
			t.Errorf("got %+v, %v", h, err)
		}
	})
	t.Run("both files", func(t *testing.T) {
		dir := t.TempDir()
		write(t, dir, "hostnqn", "nqn.2020-01.org.x:a\n")
		write(t, dir, "hostid", testUUID+"\nmore\n")
		h, err := LoadHost(dir)
		if err != nil || h.NQN != "nqn.2020-01.org.x:a" || h.ID.String() != testUUID {
			t.Errorf("got %+v, %v", h, err)
		}
	})
	t.Run("hostid only", func(t *testing.T) {
		dir := t.TempDir()
		write(t, dir, "hostid", testUUID)
		if h, err := LoadHost(dir); err != nil || h.NQN != wire.UUIDNQNPrefix+testUUID {
			t.Errorf("got %+v, %v", h, err)
		}
	})
	t.Run("broken", func(t *testing.T) {
		dir := t.TempDir()
		write(t, dir, "hostnqn", "rubbish")
		if _, err := LoadHost(dir); err == nil || !strings.Contains(err.Error(), dir) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("made once and kept", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "new", "dir")
		hosts := make([]Host, 8)
		var wg sync.WaitGroup
		for i := range hosts {
			wg.Go(func() {
				var err error
				if hosts[i], err = LoadHost(t.TempDir(), dir); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		again, err := LoadHost(dir)
		if err != nil || again.NQN != wire.UUIDNQNPrefix+again.ID.String() {
			t.Errorf("got %+v, %v", again, err)
		}
		for _, h := range hosts {
			if h != again {
				t.Errorf("got %+v, then %+v", h, again)
			}
		}
		files, _ := os.ReadDir(dir)
		if len(files) != 2 {
			t.Errorf("%d files left in %s", len(files), dir)
		}
	})
	t.Run("nowhere to keep it", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "file")
		write(t, filepath.Dir(file), "file", "")
		if _, err := LoadHost(file); err == nil {
			t.Error("no error")
		}
		if _, err := LoadHost(); err == nil {
			t.Error("no error without directories")
		}
	})
}
