package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
)

// Each EXPORT that the usage text allows means what it says.
func TestParseExport(t *testing.T) {
	id := uuid.MustParse("0d155e58-787f-4424-945d-c3ee523eb6ae")
	for in, want := range map[string]exportSpec{
		"/srv/disk.img":                   {Path: "/srv/disk.img", Backend: "file", NQN: "nqn.2026-11.io.rbd:disk.img"},
		"ram:1G":                          {Backend: "ram", Size: 1 << 30, NQN: "nqn.2026-11.io.rbd:ram"},
		"null:8T,nsid=7":                  {Backend: "null", Size: 8 << 40, NQN: "nqn.2026-11.io.rbd:null", NSID: 7},
		"x,backend=ram,size=1M":           {Backend: "ram", Size: 1 << 20, NQN: "nqn.2026-11.io.rbd:x"},
		"/srv/x.img,size=1M,backend=null": {Backend: "null", Size: 1 << 20, NQN: "nqn.2026-11.io.rbd:x.img"},
		",size=1M,backend=ram":            {Backend: "ram", Size: 1 << 20, NQN: "nqn.2026-11.io.rbd:ram"},
		"ram:1M,backend=ram":              {Backend: "ram", Size: 1 << 20, NQN: "nqn.2026-11.io.rbd:ram"},
		"./ram:1M":                        {Path: "./ram:1M", Backend: "file", NQN: "nqn.2026-11.io.rbd:ram:1M"},
		"a,,b.img,ro,nqn=nqn.2026-11.x:y": {Path: "a,b.img", Backend: "file", ReadOnly: true, NQN: "nqn.2026-11.x:y"},
		"d,size=10M,block-size=4K,backend=file,uuid=" + id.String(): {Path: "d", Backend: "file", Size: 10 << 20, BlockSize: 4096, UUID: id, NQN: "nqn.2026-11.io.rbd:d"},
	} {
		got, err := parseExport(in)
		if err != nil {
			t.Errorf("%s: %v", in, err)
		} else if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: %s", in, d)
		}
	}
}

// A mistake is refused with the word that is wrong in the message.
func TestParseExportRefuses(t *testing.T) {
	for in, word := range map[string]string{
		"": "no path", ",ro": "no path", "ram:": "size", "ram:x": "size", "ram:0": "block", "null": "", "ram:1G,size=2G": "size=",
		"f,nsid=0": "nsid", "f,nsid=x": "nsid", "f,nsid=4294967296": "nsid", "f,nsid=1025": "1 to 1024", "f,nqn=nqn.2014-08.org.nvmexpress.discovery": "discovery", "f,ro=1": "ro", "f,block-size=1024": "block-size",
		"f,uuid=zz": "uuid", "f,readonly": "readonly", "f,backend=disk": "backend", "f,nqn": "nqn", "f,ro,ro": "twice", "f,size=-1": "size",
		"f,backend=ram": "needs a size", "ram:1M,backend=file": "./ram:1M", "ram:1M,backend=null": "contradict", ",backend=file": "no path",
	} {
		_, err := parseExport(in)
		if word == "" {
			if err != nil {
				t.Errorf("%q is a file's name: %v", in, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%q: %v, want a message with %q", in, err, word)
		}
	}
}

// Exports of one subsystem get distinct namespace IDs, and keep those they ask for.
func TestAssignNSIDs(t *testing.T) {
	ex := []exportSpec{{NQN: "a"}, {NQN: "a", NSID: 1}, {NQN: "b"}, {NQN: "a"}}
	if err := assignNSIDs(ex); err != nil {
		t.Fatal(err)
	}
	got := []uint32{ex[0].NSID, ex[1].NSID, ex[2].NSID, ex[3].NSID}
	if d := cmp.Diff([]uint32{2, 1, 1, 3}, got); d != "" {
		t.Error(d)
	}
	if assignNSIDs([]exportSpec{{NQN: "a", NSID: 2}, {NQN: "a", NSID: 2}}) == nil {
		t.Error("one nsid twice was accepted")
	}
}
