package e2e

import (
	"strings"
	"testing"
	"time"
)

// Two processes measure with each other, one after the other and several at a time;
// SIGTERM prints what was measured; a client that is killed harms nobody.
func TestPerf(t *testing.T) {
	server := start(t, "rbd-target", "perf", "-l", "127.0.0.1:0", "--max-tests", "2")
	at := []string{"perf", "-a", strings.TrimPrefix(server.line(), "listening ")}
	for _, op := range []string{"write_bw", "read_bw", "send_lat", "write_lat"} {
		p := start(t, "rbd-initiator", append(at, "--op", op, "-n", "50", "--size", "1", "--size", "100K")...)
		if code := p.wait(); code != 0 {
			t.Fatalf("%s: exit %d: %s", op, code, p.stderr.String())
		}
	}

	endless := append(at, "--op", "send_lat", "-D", "1h")
	a, b := start(t, "rbd-initiator", endless...), start(t, "rbd-initiator", endless...)
	for _, p := range []*process{a, b} { // both measure
		p.line()
		p.line()
	}
	time.Sleep(500 * time.Millisecond)
	refused := start(t, "rbd-initiator", endless...)
	if code := refused.wait(); code != 1 || !strings.Contains(refused.stderr.String(), "busy with other tests") {
		t.Errorf("a third: exit %d: %s", code, refused.stderr.String())
	}
	if err := a.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	b.stop()
	if row := b.line(); len(strings.Fields(row)) != 9 {
		t.Errorf("SIGTERM printed %q", row)
	}

	last := start(t, "rbd-initiator", append(at, "-n", "5")...)
	if code := last.wait(); code != 0 {
		t.Errorf("after all that: exit %d: %s", code, last.stderr.String())
	}
	server.stop()
}
