package vm

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// Protects the heads of the scenarios in the tree: every one can be read, and the
// runner knows who is the peer.
func TestScenarios(t *testing.T) {
	all, err := Scenarios(ScenarioDir())
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 2 {
		t.Fatalf("%d scenarios in %s", len(all), ScenarioDir())
	}
	for _, s := range all {
		if strings.Contains(s.Title, "|") {
			t.Errorf("%s: the title %q does not fit into a table", s.Name, s.Title)
		}
	}
}

// Protects the reading of a head: settings, a title of several lines, and mistakes
// that must not go unnoticed.
func TestReadScenario(t *testing.T) {
	good := "# Ends well:\n# all of it.\n#\n# Not the title.\n# host: A\n# target: B (C)\n# machines: 2\n# timeout: 90s\n# short: yes\n# fabrics: rxe siw\n# kernel-log: one|two\necho '# host: D'\n"
	s, fabrics, err := readScenario(write(t, good))
	if err != nil {
		t.Fatal(err)
	}
	if s.Name != "some" || s.Title != "Ends well: all of it." || s.Host != "A" || s.Target != "B (C)" || s.Machines != 2 || s.Timeout != 90*time.Second || !s.Short ||
		s.Fabric != "iwarp" || !slices.Equal(fabrics, []string{"rxe", "siw"}) {
		t.Errorf("read %+v, fabrics %q", s, fabrics)
	}
	for name, bad := range map[string]string{
		"no title":        "# host: A\n# target: B\n",
		"no host":         "# T\n# target: B\n",
		"unknown setting": "# T\n# host: A\n# target: B\n# color: red\n",
		"three machines":  "# T\n# host: A\n# target: B\n# machines: 3\n",
		"short or not":    "# T\n# host: A\n# target: B\n# short: rather\n",
		"no such fabric":  "# T\n# host: A\n# target: B\n# fabrics: roce\n",
		"boot of two":     "# T\n# host: A\n# target: B\n# machines: 2\n# boot: some.d\n",
		"bad time":        "# T\n# host: A\n# target: B\n# timeout: soon\n",
	} {
		if s, _, err := readScenario(write(t, bad)); err == nil {
			t.Errorf("%s: read as %+v", name, s)
		}
	}
}

// Protects the table of results from rows that say the wrong peer.
func TestScenarioOnAnotherFabric(t *testing.T) {
	s := Scenario{Name: "host-basic", Script: "host-basic.sh", Host: "Linux nvme-rdma (siw)", Target: "rbd-target", Fabric: "iwarp", Short: true}.on("rxe")
	want := Scenario{Name: "host-basic@rxe", Script: "host-basic.sh", Host: "Linux nvme-rdma (rxe)", Target: "rbd-target (rdma://, rxe)", Fabric: "rxe"}
	if s != want {
		t.Errorf("%+v, want %+v", s, want)
	}
}

func write(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "some.sh")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

// Protects the verdict: a kernel that reports a fault fails the scenario, unless
// the scenario knows that very line.
func TestTrouble(t *testing.T) {
	file := write(t, "# T\n# host: A\n# target: B\n# kernel-log: known fault\n")
	s, _, err := readScenario(file)
	if err != nil {
		t.Fatal(err)
	}
	log := "<6> [1.0] nvme nvme0: fine\n<4> [2.0] WARNING: CPU: 0 known fault\n<1> [3.0] BUG: kernel NULL pointer dereference\n"
	got := s.Trouble(log)
	if len(got) != 1 || !strings.Contains(got[0], "NULL pointer") {
		t.Errorf("trouble is %q", got)
	}
}

// Protects the document around the table, and in it the rows of other kernels and of
// scenarios that were not run.
func TestWriteMatrix(t *testing.T) {
	file := write(t, "before\n"+matrixBegin+"\n"+matrixHead+"| H | T | 6.12.1-amd64 | `a` | first | passes |\n| H | T | 6.1.0-9-amd64 | `a` | first | passes |\n| H | T | 6.12.1-amd64 | `0` | not run | passes |\n| H | T | 6.12.1-amd64 | `gone` | not there any more | passes |\n"+matrixEnd+"\nafter\n")
	outcomes := func(kernel string) []Outcome {
		return []Outcome{
			{Scenario{Name: "a", Title: "first", Host: "H", Target: "T"}, kernel, true},
			{Scenario{Name: "b", Title: "second", Host: "H", Target: "T"}, kernel, false},
		}
	}
	all := []Scenario{{Name: "0"}, {Name: "a"}, {Name: "b"}}
	for _, kernel := range []string{"6.12.2-amd64", "6.12.2-amd64", "6.1.0-10-amd64"} { // the second time must find the marks again
		if err := writeMatrix(file, outcomes(kernel), all); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want := "before\n" + matrixBegin + "\n\n" + matrixHead +
		"| H | T | 6.12.1-amd64 | `0` | not run | passes |\n" +
		"| H | T | 6.12.2-amd64 | `a` | first | passes |\n| H | T | 6.12.2-amd64 | `b` | second | **fails** |\n" +
		"| H | T | 6.1.0-10-amd64 | `a` | first | passes |\n| H | T | 6.1.0-10-amd64 | `b` | second | **fails** |\n\n" +
		matrixEnd + "\nafter\n"
	if string(b) != want {
		t.Errorf("got:\n%s\nwant:\n%s", b, want)
	}
	if err := writeMatrix(write(t, "no marks"), outcomes("6.12.2"), all); err == nil {
		t.Error("a document without marks was changed")
	}
}
