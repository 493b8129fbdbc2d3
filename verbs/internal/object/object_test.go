package object

import (
	"context"
	"errors"
	"testing"
	"time"

	"rbd/verbs"
)

// Protects an object from being freed below those that use it, and from a user after
// that.
func TestUsers(t *testing.T) {
	var u Users
	if !u.Add() || !u.Add() {
		t.Fatal("no user is let in")
	}
	u.Remove()
	if err := u.Free("free"); !errors.Is(err, verbs.ErrBusy) {
		t.Errorf("free with a user: %v", err)
	}
	u.Remove()
	if err := u.Free("free"); err != nil {
		t.Errorf("free without user: %v", err)
	}
	if u.Add() {
		t.Error("a user of what is freed")
	}
	if err := u.Free("free"); !errors.Is(err, verbs.ErrClosed) {
		t.Errorf("free again: %v", err)
	}
}

// Protects who waits: an event that came before is not lost, two are one, and the end
// is told.
func TestEvent(t *testing.T) {
	e := NewEvent()
	e.Fire()
	e.Fire()
	if err := e.Wait(t.Context()); err != nil {
		t.Fatalf("wait after the event: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := e.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("wait without an event: %v", err)
	}
	time.AfterFunc(time.Millisecond, e.Close)
	if err := e.Wait(t.Context()); !errors.Is(err, verbs.ErrClosed) || !e.IsClosed() {
		t.Errorf("wait at the end: %v", err)
	}
	e.Fire()
	if err := e.Wait(t.Context()); !errors.Is(err, verbs.ErrClosed) {
		t.Errorf("wait after the end: %v", err)
	}
	<-e.Closed()
}
