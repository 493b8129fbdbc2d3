package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"rbd/cmd/internal/command"
	"rbd/verbs"
	"rbd/verbs/iwarp"
	"rbd/verbs/perf"
)

// perfPeer is a measuring server of this process; the result is its port.
func perfPeer(t *testing.T) (port string) {
	t.Helper()
	l, err := iwarp.New().Listen(t.Context(), verbs.Addr{Fabric: iwarp.Name, Host: "127.0.0.1", Port: "0"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- new(perf.Server).Serve(ctx, l) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		l.Close()
	})
	return l.Addr().Port
}

// program runs the program with a command line.
func program(ctx context.Context, line string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = command.Run(ctx, newApp(), append([]string{"rbd-initiator"}, strings.Fields(line)...), &out, &errs)
	return code, out.String(), errs.String()
}

// Protects those who read the table with awk: perftest's header, one row for each
// size, as many fields as perftest has.
func TestPerfTable(t *testing.T) {
	at := "perf -a 127.0.0.1 -n 20 -s " + perfPeer(t)
	for _, tt := range []struct {
		args   string
		head   string
		fields int
		rows   int
	}{
		{" --size 4K --size 64", "#bytes #iterations BW peak[MiB/sec] BW average[MiB/sec] MsgRate[Mpps]", 5, 2},
		{" --op read_bw --tx-depth 3", "#bytes #iterations BW peak[MiB/sec] BW average[MiB/sec] MsgRate[Mpps]", 5, 1},
		{" --op send_lat --poll", "#bytes #iterations t_min[usec] t_max[usec] t_typical[usec] t_avg[usec] t_stdev[usec] 99% percentile[usec] 99.9% percentile[usec]", 9, 1},
		{" --op write_lat", "#bytes #iterations t_min[usec] t_max[usec] t_typical[usec] t_avg[usec] t_stdev[usec] 99% percentile[usec] 99.9% percentile[usec]", 9, 1},
	} {
		code, out, errs := program(t.Context(), at+tt.args)
		lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
		if code != 0 || errs != "" || len(lines) != 2+tt.rows {
			t.Errorf("%s: exit %d, %s\n%s", tt.args, code, errs, out)
			continue
		}
		if got := strings.Join(strings.Fields(lines[1]), " "); got != tt.head {
			t.Errorf("%s: header %q", tt.args, got)
		}
		for _, l := range lines[2:] {
			if f := strings.Fields(l); len(f) != tt.fields || f[1] != "20" {
				t.Errorf("%s: row %q", tt.args, l)
			}
		}
	}
}

// Protects programs that read the JSON: the names are perftest's.
func TestPerfJSON(t *testing.T) {
	at := "perf -o json -a 127.0.0.1 -n 20 --op write_bw -s " + perfPeer(t)
	var doc struct {
		Op      string
		Sides   []struct{ Address string }
		Results []map[string]float64
	}
	code, out, errs := program(t.Context(), at)
	if code != 0 || json.Unmarshal([]byte(out), &doc) != nil || doc.Op != "write_bw" || len(doc.Sides) != 1 || len(doc.Results) != 1 {
		t.Fatalf("exit %d, %s\n%s", code, errs, out)
	}
	for _, k := range []string{"MsgSize", "n_iterations", "BW_peak", "BW_average", "MsgRate"} {
		if doc.Results[0][k] <= 0 {
			t.Errorf("%s is %v", k, doc.Results[0][k])
		}
	}
	var pair struct {
		Comparisons []struct {
			Rounds        int
			First, Second map[string]float64
			Ratio         float64
		}
	}
	code, out, errs = program(t.Context(), at+" --compare --tx-depth 1 --tx-depth 64 --rounds 1")
	if code != 0 || json.Unmarshal([]byte(out), &pair) != nil || len(pair.Comparisons) != 1 {
		t.Fatalf("exit %d, %s\n%s", code, errs, out)
	}
	c := pair.Comparisons[0]
	if want := c.First["BW_average"] / c.Second["BW_average"]; c.Rounds != 1 || c.Ratio < 0.99*want || c.Ratio > 1.01*want {
		t.Errorf("%+v", c)
	}
}

// Protects ctrl-C: what was measured until then is printed, and the exit is clean.
func TestPerfInterrupted(t *testing.T) {
	port := perfPeer(t)
	for wait := 200 * time.Millisecond; ; wait *= 2 { // longer on a busy machine
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(wait, cancel)
		code, out, errs := program(ctx, "perf -a 127.0.0.1 --op send_lat -D 1h -s "+port)
		cancel()
		if code != 0 || errs != "" {
			t.Fatalf("exit %d, %s\n%s", code, errs, out)
		}
		if strings.Count(out, "\n") == 3 {
			return
		}
		if wait > 10*time.Second {
			t.Fatalf("nothing was measured: %s", out)
		}
	}
}

// Protects users from a mistyped command line: one line that says what is wrong,
// and the exit code of wrong usage.
func TestPerfUsage(t *testing.T) {
	for line, want := range map[string]string{
		"perf":                                 "--traddr is needed",
		"perf -a h --op send_bw":               `"send_bw" is not write_bw`,
		"perf -a h --size 0":                   "size 0",
		"perf -a h --size 9M":                  "size 8388609",
		"perf -a h --size 99999999999G":        "size",
		"perf -a h --size x":                   `"x" is not a size`,
		"perf -a h -A --size 2":                "exclude each other",
		"perf -a h -n 0":                       "0 iterations",
		"perf -a h -n 4":                       "4 iterations",
		"perf -a h -n 5 -D 5":                  "exclude each other",
		"perf -a h -D 0":                       `"0" is not a time`,
		"perf -a h -D -5":                      `"-5" is not a time`,
		"perf -a h -D NaN":                     `"NaN" is not a time`,
		"perf -a h -D 1e300":                   `"1e300" is not a time`,
		"perf -a h -D 2h":                      `"2h" is not a time`,
		"perf -a h --tx-depth 0":               "depth of 0",
		"perf -a h --tx-depth 15001":           "depth 15001",
		"perf -a h -a i":                       "go with --compare",
		"perf -a h --compare":                  "needs two",
		"perf -a h -a i -a j --compare":        "compares two, not 3",
		"perf -a h -a i --compare --rounds 0":  "--rounds 0",
		"perf -a h --op send_lat --tx-depth 2": "goes with bandwidth",
		"perf -a ::1:18515":                    "with a port it has brackets: [::1]:4420",
		"perf -a nvme://h":                     "neither iwarp nor rdma",
		"perf -a h -s http":                    "port",
		"perf -a h -o xml":                     "output format",
	} {
		code, out, errs := program(t.Context(), line)
		if code != command.ExitUsage || out != "" || !strings.Contains(errs, want) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%s: exit %d, %q, %q; want %q", line, code, out, errs, want)
		}
	}
}

// Protects users of a peer that is not there: one line, with the address, and no table.
func TestPerfNobody(t *testing.T) {
	code, out, errs := program(t.Context(), "perf -a 127.0.0.1 -s 1")
	if code != command.ExitFailed || out != "" || !strings.Contains(errs, "iwarp://127.0.0.1:1") || strings.Count(errs, "\n") != 1 {
		t.Errorf("exit %d, %q, %q", code, out, errs)
	}
}

// Protects users who mix the ports of serve and perf up.
func TestDiscoverAtPerf(t *testing.T) {
	code, _, errs := program(t.Context(), "discover -a 127.0.0.1 -q nqn.2026-11.org.example:h -s "+perfPeer(t))
	if code != command.ExitFailed || !strings.Contains(errs, "is this the port of 'rbd-target perf'?") || strings.Count(errs, "\n") != 1 {
		t.Errorf("exit %d, %q", code, errs)
	}
}
