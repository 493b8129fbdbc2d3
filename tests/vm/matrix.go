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

// matrix returns the outcomes as a table. It has no times or dates: the same
// results on the same kernel give the same text.
func matrix(outcomes []Outcome) string {
	var b strings.Builder
	b.WriteString("| NVMe host | NVMe target | kernel | scenario | what it proves | result |\n|---|---|---|---|---|---|\n")
	for _, o := range outcomes {
		result := "passes"
		if !o.Passed {
			result = "**fails**"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | `%s` | %s | %s |\n", o.Host, o.Target, o.Kernel, o.Name, o.Title, result)
	}
	return b.String()
}

// writeMatrix puts the table into a document, between the marks.
func writeMatrix(file string, outcomes []Outcome) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	text := string(b)
	before, rest, ok := strings.Cut(text, matrixBegin)
	_, after, ok2 := strings.Cut(rest, matrixEnd)
	if !ok || !ok2 {
		return fmt.Errorf("%s has no marks for the table", file)
	}
	changed := before + matrixBegin + "\n\n" + matrix(outcomes) + "\n" + matrixEnd + after
	if changed == text {
		return nil
	}
	return os.WriteFile(file, []byte(changed), 0o644)
}
