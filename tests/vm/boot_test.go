package vm

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// shutdownTimeout bounds the time from poweroff to the machine's end. It is less than
// the 90 s that systemd gives a unit which does not want to stop.
const shutdownTimeout = time.Minute

// runBooted runs a scenario in two boots of a machine, one after the other, and
// returns what went wrong. What is written to the console meanwhile, to the very end,
// is the file /vm/console.1 in the second boot.
func (r *runner) runBooted(s Scenario, log io.Writer) string {
	r.killAll() // two machines a lane would be too many
	for phase := 1; phase <= 2; phase++ {
		if trouble := r.runPhase(s, phase, log); trouble != "" {
			return fmt.Sprintf("boot %d: %s", phase, trouble)
		}
	}
	return ""
}

func (r *runner) runPhase(s Scenario, phase int, log io.Writer) string {
	start := time.Now()
	r.serial++
	m, err := r.lab.Boot(r.ctx, MachineConfig{Name: r.name("systemd"), Boot: s.Boot})
	if err != nil {
		return err.Error()
	}
	defer m.Kill()
	fmt.Fprintf(log, "=== boot %d: the agent is there after %v\n", phase, time.Since(start).Round(time.Second))
	trouble := r.runIn(m, s, log, fmt.Sprintf("PHASE=%d", phase))
	if trouble == "" {
		var took time.Duration
		took, err = m.PowerOff(shutdownTimeout * r.patience)
		fmt.Fprintf(log, "=== off after %v\n", took.Round(time.Second))
	}
	console := m.console()
	fmt.Fprintf(log, "=== console of boot %d:\n%s\n", phase, console)
	switch lines := s.Trouble(string(console)); {
	case trouble != "":
		return trouble
	case err != nil:
		return err.Error()
	case len(lines) > 0:
		return fmt.Sprintf("the kernel complains: %q", lines)
	case !bytes.Contains(console, []byte("reboot: Power down")):
		return "the machine ended without having been shut down"
	}
	if err := os.WriteFile(filepath.Join(r.lab.Share(), fmt.Sprintf("console.%d", phase)), bytes.TrimSpace(console), 0o644); err != nil {
		return err.Error()
	}
	return ""
}
