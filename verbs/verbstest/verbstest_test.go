package verbstest

import "testing"

// Protects -run: every case has a name of its own, and something to run.
func TestAllNames(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range All {
		if c.Name == "" || c.Run == nil || seen[c.Name] {
			t.Errorf("case %q has no name, no function, or is there twice", c.Name)
		}
		seen[c.Name] = true
	}
	if len(All) < 100 {
		t.Errorf("%d cases", len(All))
	}
}
