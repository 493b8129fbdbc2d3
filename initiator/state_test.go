package initiator

import "testing"

// Protects the life of a controller: which state may come after which, and that
// Close ends each of them.
func TestStateTransitions(t *testing.T) {
	allowed := map[State][]State{
		StateConnecting:   {StateLive, StateClosing},
		StateLive:         {StateReconnecting, StateLost, StateClosing},
		StateReconnecting: {StateLive, StateLost, StateClosing},
		StateLost:         {StateLive, StateClosing},
		StateClosing:      {StateClosed},
		StateClosed:       {},
	}
	for from := StateConnecting; from <= StateClosed; from++ {
		want := map[State]bool{}
		for _, to := range allowed[from] {
			want[to] = true
		}
		for to := StateConnecting; to <= StateClosed+1; to++ {
			if got := from.mayBecome(to); got != want[to] {
				t.Errorf("%v to %v: %v", from, to, got)
			}
		}
	}
}
