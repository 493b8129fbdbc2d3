package perf

import "testing"

// Protects slow tests from being taken for stuck ones, and stuck ones from staying.
func TestStallWatch(t *testing.T) {
	var w stallWatch
	for i, look := range []struct {
		progress uint64
		stalled  bool
	}{{1, false}, {1, false}, {2, false}, {2, false}, {3, false}, {3, false}, {3, true}, {3, true}, {4, false}} {
		if got := w.stalled(look.progress); got != look.stalled {
			t.Errorf("look %d: %v", i, got)
		}
	}
	var idle stallWatch // from the very start
	if idle.stalled(0) || !idle.stalled(0) {
		t.Error("a test that never began to move")
	}
}
