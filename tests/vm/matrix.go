package vm

import (
	"fmt"
	"os"
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

// merge returns the table with the outcomes of one kernel in place of older ones of
// the same series. The rows of other series stay; those of DefaultSeries come first.
func merge(old string, outcomes []Outcome) string {
	var mine, others strings.Builder
	for _, o := range outcomes {
		mine.WriteString(o.row())
	}
	this := series(outcomes[0].Kernel)
	for line := range strings.Lines(old) {
		cells := strings.Split(line, " | ")
		if len(cells) == 6 && strings.Contains(line, "`") && series(cells[2]) != this {
			others.WriteString(line)
		}
	}
	if this == DefaultSeries {
		return matrixHead + mine.String() + others.String()
	}
	return matrixHead + others.String() + mine.String()
}

// writeMatrix puts the outcomes into the table of a document, between the marks.
func writeMatrix(file string, outcomes []Outcome) error {
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
	changed := before + matrixBegin + "\n\n" + merge(old, outcomes) + "\n" + matrixEnd + after
	if changed == text {
		return nil
	}
	return os.WriteFile(file, []byte(changed), 0o644)
}
