package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// programs is the folder with rbd-target and rbd-initiator.
var programs string

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "rbd-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	build := []string{"build", "-o", dir + string(filepath.Separator)}
	if race {
		build = append(build, "-race")
	}
	out, err := exec.Command("go", append(build, "rbd/cmd/rbd-target", "rbd/cmd/rbd-initiator")...).CombinedOutput()
	if err != nil {
		fmt.Fprintf(os.Stderr, "build the programs: %v\n%s", err, out)
		return 1
	}
	programs = dir
	return m.Run()
}
