package testenv

import (
	"os"
	"os/exec"
	"testing"
)

// Strict says that nothing may be skipped: the variable CI is set to true.
func Strict() bool { return os.Getenv("CI") == "true" }

// Skip ends the test because something that it needs is missing: a skip that
// names it, or a failure where nothing may be missing.
func Skip(t testing.TB, format string, args ...any) {
	t.Helper()
	if Strict() {
		t.Fatalf("needed here: "+format, args...)
	}
	t.Skipf("missing: "+format, args...)
}

// Tools skips the test unless all programs are in the path.
func Tools(t testing.TB, names ...string) {
	t.Helper()
	for _, n := range names {
		if _, err := exec.LookPath(n); err != nil {
			Skip(t, "the program %s ('make tools' installs it)", n)
		}
	}
}

// Root skips the test unless the user is root.
func Root(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		Skip(t, "root's rights")
	}
}
