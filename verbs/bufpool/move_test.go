package bufpool

import (
	"errors"
	"testing"

	"rbd/verbs"
)

// Protects who holds blocks while the device changes: they stay where they are, the
// keys are those of the new registration, and the rights are the same.
func TestMove(t *testing.T) {
	old, now := &fakePD{}, &fakePD{key: 100}
	const access = verbs.AccessLocalWrite | verbs.AccessRemoteRead
	a, err := New(old, MinBlock, MinBlock, access)
	if err != nil {
		t.Fatal(err)
	}
	b, err := New(old, 2*MinBlock, MinBlock, access)
	if err != nil {
		t.Fatal(err)
	}
	lent := mustGet(t, b, MinBlock)
	copy(lent.Data, "data")
	before, err := Move(now, a, b)
	if err != nil || len(before) != 2 || now.live != 2 || old.live != 2 || now.access != access {
		t.Fatalf("move: error %v, %d regions of before, %d on the new device with rights %v, %d on the old one", err, len(before), now.live, now.access, old.live)
	}
	for _, mr := range before {
		if err := mr.Dereg(); err != nil {
			t.Error(err)
		}
	}
	if old.live != 0 {
		t.Errorf("%d regions are left on the old device", old.live)
	}
	if l, r := b.Keys(); l != 100+fakeLKey || r != 100+fakeRKey {
		t.Errorf("keys %#x and %#x after the move", l, r)
	}
	if string(lent.Data[:4]) != "data" {
		t.Error("a block lost its data")
	}
	b.Put(lent)
	if again := mustGet(t, b, MinBlock); again.LKey != 100+fakeLKey || again.RKey != 100+fakeRKey || again.Addr != verbs.AddrOf(again.Data) {
		t.Errorf("lent after the move: %+v", again)
	} else {
		b.Put(again)
	}
	for _, p := range []*Pool{a, b} {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
	if now.live != 0 {
		t.Errorf("%d regions are left on the new device", now.live)
	}
}

// Protects from pools on two devices: if one can't be registered, none moves.
func TestMoveFails(t *testing.T) {
	old, now := &fakePD{}, &fakePD{key: 100, room: 1, err: errors.New("refused")}
	a, err := New(old, MinBlock, MinBlock, 0)
	if err != nil {
		t.Fatal(err)
	}
	b, err := New(old, MinBlock, MinBlock, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Move(now, a, b); !errors.Is(err, now.err) || now.live != 0 || old.live != 2 {
		t.Errorf("move: error %v, %d regions on the new device, %d on the old one", err, now.live, old.live)
	}
	for _, p := range []*Pool{a, b} {
		if l, _ := p.Keys(); l != fakeLKey {
			t.Errorf("key %#x of a pool that did not move", l)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
}
