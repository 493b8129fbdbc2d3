package vm

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"rbd/tests/vm/image"
)

// Lab is what the machines of one run have in common.
type Lab struct {
	Kernel image.Kernel
	// Dir is the run's folder on the host. Its subfolder vm is /vm in the guests.
	Dir       string
	initramfs string
}

// programs are built for the guest and put into its path.
var programs = []string{"rbd/cmd/rbd-target", "rbd/cmd/rbd-initiator", "rbd/tests/vm/cmd/vmagent", "rbd/tests/vm/cmd/vmtarget"}

// conformance is the package whose tests run in the guest as conformance.test: it has RDMA
// devices.
const conformance = "rbd/tests/conformance"

// DefaultSeries is the kernel that the scenarios are for. RBD_VM_KERNEL chooses another.
const DefaultSeries = "6.12"

// NewLab prepares a run in the folder dir: kernel, initial RAM disk, programs and
// scenarios. It tells its progress to log.
func NewLab(ctx context.Context, dir string, log func(format string, args ...any)) (*Lab, error) {
	kernel, err := image.Prepare(ctx, cmp.Or(os.Getenv("RBD_VM_KERNEL"), DefaultSeries), log)
	if err != nil {
		return nil, fmt.Errorf("prepare the kernel: %w", err)
	}
	l := &Lab{Kernel: kernel, Dir: dir, initramfs: filepath.Join(dir, "initramfs.gz")}
	if err := kernel.WriteInitramfs(ctx, l.initramfs); err != nil {
		return nil, fmt.Errorf("initial RAM disk: %w", err)
	}
	bin := filepath.Join(l.Share(), "bin") + string(filepath.Separator)
	for _, args := range [][]string{
		append([]string{"build", "-o", bin}, programs...),
		{"test", "-c", "-o", bin, conformance},
	} {
		// With cgo, as users build them: rdma-core is reached by it. The guest has
		// the host's libraries.
		build := exec.CommandContext(ctx, "go", args...)
		build.Dir = sourceDir()
		build.Env = append(os.Environ(), "CGO_ENABLED=1")
		if out, err := build.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("build the programs: %w\n%s", err, out)
		}
	}
	if err := os.CopyFS(filepath.Join(l.Share(), "scenarios"), os.DirFS(ScenarioDir())); err != nil {
		return nil, fmt.Errorf("copy the scenarios: %w", err)
	}
	if err := os.CopyFS(filepath.Join(l.Share(), "packaging"), os.DirFS(filepath.Join(sourceDir(), "..", "..", "packaging"))); err != nil {
		return nil, fmt.Errorf("copy the udev rules: %w", err)
	}
	return l, nil
}

// Share is the folder that the guests see as /vm.
func (l *Lab) Share() string { return filepath.Join(l.Dir, "vm") }

// ScenarioDir is the folder of the scenarios in the source tree.
func ScenarioDir() string { return filepath.Join(sourceDir(), "scenarios") }

// sourceDir is the folder of this package.
func sourceDir() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Dir(file)
}
