package vm

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

// Outcome is how a scenario went in a run.
type Outcome struct {
	Scenario
	Kernel string // the version of the kernel that was the peer
	Passed bool
}

// The lines of docs/interop.md between which the table stands.
const (
	matrixBegin = "<!-- The run of tests/vm writes the lines from here on. -->"
	matrixEnd   = "<!-- Here ends what tests/vm writes. -->"
)

const matrixHead = "| NVMe host | NVMe target | kernel | scenario | what it proves | result |\n|---|---|---|---|---|---|\n"

// row is an outcome as a line of the table. It has no times or dates: the same
// results on the same kernel give the same text.
func (o Outcome) row() string {
	result := "passes"
	if !o.Passed {
		result = "**fails**"
	}
	return fmt.Sprintf("| %s | %s | %s | `%s` | %s | %s |\n", o.Host, o.Target, o.Kernel, o.Name, o.Title, result)
}

// series is the part of a kernel's version that tells which rows a run replaces:
// 6.12 of 6.12.117+deb12-amd64.
func series(kernel string) string {
	parts := strings.SplitN(kernel, ".", 3)
	return strings.Join(parts[:min(len(parts), 2)], ".")
}

// rowKey is what a row is about: the scenario with kernels of a series.
type rowKey struct{ series, scenario string }

// merge returns the table with the outcomes in place of older ones of the same
// scenarios and series. Rows of scenarios that are not in all are dropped. Those of
// DefaultSeries come first.
func merge(old string, outcomes []Outcome, all []Scenario) string {
	exists := make(map[string]bool)
	for _, s := range all {
		exists[s.Name] = true
	}
	rows := make(map[rowKey]string)
	for line := range strings.Lines(old) {
		if cells := strings.Split(line, " | "); len(cells) == 6 {
			if name := strings.Trim(cells[3], "`"); exists[name] {
				rows[rowKey{series(cells[2]), name}] = line
			}
		}
	}
	for _, o := range outcomes {
		rows[rowKey{series(o.Kernel), o.Name}] = o.row()
	}
	keys := slices.SortedFunc(maps.Keys(rows), func(a, b rowKey) int {
		if a.series != b.series && (a.series == DefaultSeries || b.series == DefaultSeries) {
			if a.series == DefaultSeries {
				return -1
			}
			return 1
		}
		return cmp.Or(strings.Compare(a.series, b.series), strings.Compare(a.scenario, b.scenario))
	})
	var table strings.Builder
	table.WriteString(matrixHead)
	for _, k := range keys {
		table.WriteString(rows[k])
	}
	return table.String()
}

// writeMatrix puts the outcomes into the table of a document, between the marks.
func writeMatrix(file string, outcomes []Outcome, all []Scenario) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	text := string(b)
	before, rest, ok := strings.Cut(text, matrixBegin)
	old, after, ok2 := strings.Cut(rest, matrixEnd)
	if !ok || !ok2 {
		return fmt.Errorf("%s has no marks for the table", file)
	}
	changed := before + matrixBegin + "\n\n" + merge(old, outcomes, all) + "\n" + matrixEnd + after
	if changed == text {
		return nil
	}
	return os.WriteFile(file, []byte(changed), 0o644)
}
