package vm

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"time"
)

// Scenario is a script of scenarios/ and what its head says about it. The head is
// the comment at the begin of the file: the first paragraph is the title, lines of
// the form "key: value" are the settings below.
type Scenario struct {
	Name   string // the file's name without .sh; "@" and the fabric, if that is not iwarp
	Script string // the file's name
	Title  string // what it proves, in one line
	Host   string // "host:" who is the NVMe host
	Target string // "target:" who is the NVMe target
	// Machines is 1 or 2 ("machines:").
	Machines int
	// Fabric is by what our programs are reached: "iwarp", or the kernel's RDMA device
	// "rxe" or "siw" by rdma://. A head that says "fabrics: rxe siw" is one scenario more
	// for each.
	Fabric string
	// Short: it is part of a short run ("short: yes").
	Short bool
	// Boot names a folder of scenarios/ whose files are put over those of the machine
	// ("boot:"). The machine is then the scenario's own, and booted by systemd: twice,
	// with PHASE=1 and 2, and shut down both times.
	Boot string
	// Timeout bounds the script ("timeout:", a Go duration).
	Timeout time.Duration
	// Expected matches kernel messages that belong to this scenario although they
	// look like trouble ("kernel-log:", a regular expression).
	Expected *regexp.Regexp
}

// defaultTimeout is that of a scenario which names none. On two idle cores they take
// from 10 seconds to a minute.
const defaultTimeout = 4 * time.Minute

// Scenarios reads all scenarios of a folder, in the order of their names.
func Scenarios(dir string) ([]Scenario, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.sh"))
	if err != nil {
		return nil, err
	}
	sort.Strings(files)
	var all []Scenario
	for _, f := range files {
		s, fabrics, err := readScenario(f)
		if err != nil {
			return nil, fmt.Errorf("scenario %s: %w", f, err)
		}
		all = append(all, s)
		for _, fabric := range fabrics {
			all = append(all, s.on(fabric))
		}
	}
	return all, nil
}

var setting = regexp.MustCompile(`^([a-z-]+): (.*)$`)

// on is the same scenario over an RDMA device of the kernel, which both sides use.
func (s Scenario) on(fabric string) Scenario {
	s.Name, s.Fabric, s.Short = s.Name+"@"+fabric, fabric, false
	for _, party := range []*string{&s.Host, &s.Target} {
		if ours := !strings.Contains(*party, "(siw)"); ours {
			*party += " (rdma://, " + fabric + ")"
		} else {
			*party = strings.Replace(*party, "(siw)", "("+fabric+")", 1)
		}
	}
	return s
}

// readScenario reads the head of a script, and on which other fabrics it runs.
func readScenario(file string) (s Scenario, fabrics []string, err error) {
	f, err := os.Open(file)
	if err != nil {
		return s, nil, err
	}
	defer f.Close()
	script := filepath.Base(file)
	s = Scenario{Name: strings.TrimSuffix(script, ".sh"), Script: script, Fabric: "iwarp", Machines: 1, Timeout: defaultTimeout}
	inTitle := true
	for in := bufio.NewScanner(f); in.Scan(); {
		line, ok := strings.CutPrefix(in.Text(), "#")
		if !ok {
			break
		}
		line = strings.TrimSpace(line)
		if m := setting.FindStringSubmatch(line); m != nil {
			inTitle = false
			if m[1] == "fabrics" {
				fabrics = strings.Fields(m[2])
			} else if err := s.set(m[1], m[2]); err != nil {
				return s, nil, err
			}
		} else if inTitle = inTitle && line != ""; inTitle {
			s.Title = strings.TrimSpace(s.Title + " " + line)
		}
	}
	if s.Title == "" || s.Host == "" || s.Target == "" {
		return s, nil, fmt.Errorf("the head must have a title, host: and target")
	}
	if s.Boot != "" && (s.Machines != 1 || len(fabrics) > 0) {
		return s, nil, fmt.Errorf("boot: is for one machine and no other fabrics")
	}
	for _, f := range fabrics {
		if f != "rxe" && f != "siw" {
			return s, nil, fmt.Errorf("fabrics: %q is neither rxe nor siw", f)
		}
	}
	return s, fabrics, nil
}

func (s *Scenario) set(key, value string) (err error) {
	switch key {
	case "host":
		s.Host = value
	case "target":
		s.Target = value
	case "machines":
		if s.Machines, err = strconv.Atoi(value); err == nil && (s.Machines < 1 || s.Machines > 2) {
			err = fmt.Errorf("machines: %d is neither 1 nor 2", s.Machines)
		}
	case "short":
		if s.Short = value == "yes"; !s.Short {
			err = fmt.Errorf("short: %q is not yes", value)
		}
	case "boot":
		s.Boot = value
	case "timeout":
		s.Timeout, err = time.ParseDuration(value)
	case "kernel-log":
		s.Expected, err = regexp.Compile(value)
	default:
		err = fmt.Errorf("unknown setting %q", key)
	}
	return err
}

// kernelTrouble matches messages of a kernel that is no longer sound.
var kernelTrouble = regexp.MustCompile(`BUG:|WARNING:|Oops|general protection|blocked for more than|refcount_t|use-after-free|list_(add|del) corruption`)

// Trouble returns the lines of a kernel log that make the scenario fail.
func (s Scenario) Trouble(kernelLog string) (lines []string) {
	for line := range strings.Lines(kernelLog) {
		line = strings.TrimSuffix(line, "\n")
		if kernelTrouble.MatchString(line) && (s.Expected == nil || !s.Expected.MatchString(line)) {
			lines = append(lines, line)
		}
	}
	return lines
}
