package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"rbd/internal/testenv"
)

// packaging is the folder of units, rules and examples.
const packaging = "../../packaging"

// systemd finds nothing to complain about in the units.
func TestUnits(t *testing.T) {
	testenv.Tools(t, "systemd-analyze")
	dir := t.TempDir()
	files, err := filepath.Glob(filepath.Join(packaging, "*.service"))
	if err != nil || len(files) != 2 {
		t.Fatalf("units %v, %v", files, err)
	}
	args := []string{"verify", "--man=no"}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(f)
		// With ConditionPathExists, a unit whose file's name is mistyped "starts".
		_, config, _ := strings.Cut(string(b), " --config ")
		config, _, _ = strings.Cut(config, "\n")
		if !strings.Contains(string(b), "\nAssertPathExists="+config+"\n") {
			t.Errorf("%s: a start without %s does not fail", name, config)
		}
		text := strings.ReplaceAll(string(b), "/usr/bin/", programs+"/") // where the programs are here
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		args = append(args, filepath.Join(dir, strings.Replace(name, "@.", "@disk.", 1)))
	}
	if err := os.Symlink("rbd-initiator@.service", filepath.Join(dir, "rbd-initiator@disk.service")); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("systemd-analyze", args...).CombinedOutput()
	if err != nil || strings.Contains(string(out), "rbd-") {
		t.Errorf("%v\n%s", err, out)
	}
}

// The example of a target's configuration is one that a target takes, and that of a
// disk one that connect takes, save that nobody is there.
func TestExamples(t *testing.T) {
	edit := func(name string, changes ...string) string {
		t.Helper()
		b, err := os.ReadFile(filepath.Join(packaging, "examples", name))
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(strings.NewReplacer(changes...).Replace(string(b))), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	disk := filepath.Join(t.TempDir(), "disk.img")
	tg := start(t, "rbd-target", "serve", "--config", edit("target.toml", "192.0.2.1:4420", "127.0.0.1:0", "/srv/disk.img", disk, "10G", "1M"))
	port, ok := strings.CutPrefix(tg.line(), "listening iwarp://127.0.0.1:")
	if !ok {
		t.Fatal("the target does not listen")
	}
	config := edit("disk.toml", "192.0.2.1", "127.0.0.1", `nbd-device = "auto"`, "trsvcid = \""+port+"\"")
	d := start(t, "rbd-initiator", "connect", "--config", config)
	if l := d.line(); !strings.HasSuffix(l, "\t1048576\t512\tnqn.2026-11.io.rbd:disk.img\t1") {
		t.Errorf("ready with %q", l)
	}
	d.stop()
	tg.stop()
}
