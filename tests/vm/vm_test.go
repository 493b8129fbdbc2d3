package vm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"rbd/internal/testenv"
	"rbd/tests/vm/control"
)

// tools are what the runner and the scenarios need from the host.
var tools = []string{"qemu-system-x86_64", "apt-get", "dpkg", "depmod", "modprobe", "xz", "make", "gcc",
	"nvme", "rdma", "fio", "jq", "tc", "ip", "mke2fs", "qemu-io", "nbdinfo", "nbdcopy", "python3",
	"mkfs.xfs", "sfdisk", "nbd-client", "nbdkit", "udevadm", "systemctl", "e2fsck"}

// TestVM runs every scenario in a virtual machine. It protects the claim that both
// programs speak the standard: the peer is the kernel's own host or target.
func TestVM(t *testing.T) {
	which := os.Getenv("RBD_VM")
	if !slices.Contains([]string{"1", "short", "rdma"}, which) {
		testenv.Skip(t, "RBD_VM=1, short or rdma in the environment: virtual machines take minutes")
	}
	testenv.Tools(t, tools...)
	scenarios, err := Scenarios(ScenarioDir())
	if err != nil {
		t.Fatal(err)
	}
	results := &results{all: slices.Clone(scenarios)}
	scenarios = slices.DeleteFunc(scenarios, func(s Scenario) bool {
		return (s.Fabric != "iwarp") != (which == "rdma") || which == "short" && !s.Short
	})
	lab, err := NewLab(t.Context(), t.TempDir(), t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { results.write(t) })
	runners := make(chan *runner, lanes)
	for i := range lanes {
		r := &runner{ctx: t.Context(), lab: lab, lane: i, logs: logFolder(t), patience: patience(t), machines: map[string]*Machine{}, results: results}
		t.Cleanup(r.killAll)
		runners <- r
	}
	first := <-runners
	for _, s := range scenarios { // those of two machines have the cores for themselves
		if s.Machines == 2 {
			t.Run(s.Name, func(t *testing.T) { first.run(t, s) })
		}
	}
	runners <- first
	for _, s := range scenarios {
		if s.Machines == 1 {
			t.Run(s.Name, func(t *testing.T) {
				t.Parallel()
				r := <-runners
				defer func() { runners <- r }()
				r.run(t, s)
			})
		}
	}
}

// lanes is how many scenarios of one machine run at the same time: most of them keep
// one core busy.
const lanes = 2

// results are the outcomes of a run.
type results struct {
	all      []Scenario // that there are
	mu       sync.Mutex
	outcomes []Outcome
}

func (r *results) add(o Outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.outcomes = append(r.outcomes, o)
}

// write puts what was run into the table of the document.
func (r *results) write(t *testing.T) {
	if err := writeMatrix(filepath.Join(sourceDir(), "..", "..", "docs", "interop.md"), r.outcomes, r.all); err != nil {
		t.Error(err)
	}
}

func logFolder(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("RBD_VM_LOGS")
	if dir == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			t.Fatal(err)
		}
		dir = filepath.Join(cache, "rbd-vm", "logs")
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// patience is by how much the time limits, which are for two idle cores, are
// multiplied.
func patience(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv("RBD_VM_PATIENCE")
	if text == "" {
		return 1
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("RBD_VM_PATIENCE=%s is not a number from 1 on", text)
	}
	return time.Duration(n)
}

// runner runs scenarios one after the other in machines that it keeps between them.
type runner struct {
	ctx      context.Context // of the whole test: machines outlive a scenario
	lab      *Lab
	lane     int
	logs     string
	patience time.Duration // multiplies the time limits
	machines map[string]*Machine
	results  *results
	serial   int
}

func (r *runner) run(t *testing.T, s Scenario) {
	start := time.Now()
	passed := false
	log, err := os.Create(filepath.Join(r.logs, s.Name+".log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	defer func() {
		if !passed {
			r.killAll() // the next scenario finds a clean machine
		}
		r.results.add(Outcome{Scenario: s, Kernel: r.lab.Kernel.Version, Passed: passed})
	}()
	if s.Boot != "" {
		if trouble := r.runBooted(s, log); trouble != "" {
			t.Errorf("%s\nlog: %s", trouble, log.Name())
		}
		passed = !t.Failed()
		return
	}
	machines := r.boot(t, s)
	booted := time.Since(start)
	results := make([]string, len(machines))
	var wg sync.WaitGroup
	for i, m := range machines {
		wg.Go(func() { results[i] = r.runIn(m, s, log) })
	}
	wg.Wait()
	fmt.Fprintf(log, "%v, of which %v for booting\n", time.Since(start).Round(time.Second), booted.Round(time.Second))
	for i, trouble := range results {
		if trouble != "" {
			t.Errorf("machine %s: %s\nlog: %s", machines[i].config.Name, trouble, log.Name())
		}
	}
	passed = !t.Failed()
}

// boot returns the machines for a scenario: those that run already, if they are of
// the right kind.
func (r *runner) boot(t *testing.T, s Scenario) []*Machine {
	t.Helper()
	names := []string{"single"}
	if s.Machines == 2 {
		names = []string{"target", "host"}
	}
	if r.machines[names[0]] == nil {
		r.killAll()
		r.start(t, names)
	}
	machines := make([]*Machine, len(names))
	for i, name := range names {
		machines[i] = r.machines[name]
	}
	return machines
}

// start boots machines at the same time. Two are connected by a wire.
func (r *runner) start(t *testing.T, names []string) {
	t.Helper()
	r.serial++
	configs := make([]MachineConfig, len(names))
	for i, name := range names {
		configs[i] = MachineConfig{Name: r.name(name)}
		if len(names) == 2 {
			configs[i].Peer = r.name(names[1-i])
		}
	}
	errs := make([]error, len(names))
	booted := make([]*Machine, len(names))
	var wg sync.WaitGroup
	for i, c := range configs {
		wg.Go(func() { booted[i], errs[i] = r.lab.Boot(r.ctx, c) })
	}
	wg.Wait()
	for i, name := range names {
		if booted[i] != nil {
			r.machines[name] = booted[i]
		}
	}
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// name is that of a machine that is started now, of the kind that is asked for.
func (r *runner) name(kind string) string { return fmt.Sprintf("%s-%d-%d", kind, r.lane, r.serial) }

func (r *runner) killAll() {
	for name, m := range r.machines {
		m.Kill()
		delete(r.machines, name)
	}
}

// runIn runs the scenario in one machine, with more in its environment, and returns
// what went wrong.
func (r *runner) runIn(m *Machine, s Scenario, log io.Writer, env ...string) string {
	role, _, _ := strings.Cut(m.config.Name, "-")
	var tail tail
	res, err := m.Run(control.Request{
		Argv:    []string{"/bin/bash", "/vm/scenarios/" + s.Script},
		Env:     append(env, "ROLE="+role, "SCENARIO="+s.Name, "FABRIC="+s.Fabric, fmt.Sprintf("PATIENCE=%d", r.patience)),
		Timeout: s.Timeout * r.patience,
	}, io.MultiWriter(log, &tail))
	if err != nil {
		fmt.Fprintln(log, err)
		return err.Error() + "\n" + tail.String()
	}
	fmt.Fprintf(log, "--- %s: exit status %d after %v; the kernel's log:\n%s", m.config.Name, res.Exit, res.Duration.Round(time.Second), res.KernelLog)
	switch trouble := s.Trouble(res.KernelLog); {
	case res.Error != "":
		return res.Error + "\n" + tail.String()
	case res.TimedOut:
		return fmt.Sprintf("not done after %v\n%s", s.Timeout*r.patience, tail.String())
	case res.Exit != 0:
		return fmt.Sprintf("exit status %d\n%s", res.Exit, tail.String())
	case len(trouble) > 0:
		return "the kernel complains:\n" + strings.Join(trouble, "\n")
	}
	return ""
}

// tail keeps the end of an output, for the text of a failure.
type tail struct{ b bytes.Buffer }

func (w *tail) Write(p []byte) (int, error) {
	const most = 4000
	w.b.Write(p)
	if n := w.b.Len() - most; n > 0 {
		w.b.Next(n)
	}
	return len(p), nil
}

func (w *tail) String() string { return w.b.String() }
