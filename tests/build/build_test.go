package build

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"rbd/internal/testenv"
)

const headers = "/usr/include/infiniband/verbs.h" // of package libibverbs-dev

// withoutHeaders makes a build that does not look at rdma-core's headers.
const withoutHeaders = "CGO_CPPFLAGS=-DIBV_WITHOUT_HEADERS"

// Protects everyone who builds the programs: all builds succeed, start, and say of
// the rdma fabric what this machine or this build lacks. A default build needs
// nothing but libc.
func TestBuilds(t *testing.T) {
	testenv.Tools(t, "gcc", "ldd")
	for name, tt := range map[string]struct {
		env  []string
		args []string
		cgo  bool
	}{
		"default":         {[]string{"CGO_ENABLED=1"}, nil, true},
		"without headers": {[]string{"CGO_ENABLED=1", withoutHeaders}, nil, true},
		"without cgo":     {[]string{"CGO_ENABLED=0"}, nil, false},
		"nordma":          {[]string{"CGO_ENABLED=1"}, []string{"-tags", "nordma"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			build := exec.Command("go", append(append([]string{"build", "-o", dir}, tt.args...), "rbd/cmd/rbd-target", "rbd/cmd/rbd-initiator")...)
			build.Env = append(os.Environ(), tt.env...)
			run(t, build)
			for _, program := range []string{"rbd-target", "rbd-initiator"} {
				file := filepath.Join(dir, program)
				wantLibcOnly(t, file)
				out := run(t, exec.Command(file, "devices"))
				if built := !strings.Contains(out, "built without cgo"); built != tt.cgo {
					t.Errorf("%s devices says %q", program, out)
				}
			}
		})
	}
}

// wantLibcOnly checks that the program starts on a machine that has no library but
// those of libc.
func wantLibcOnly(t *testing.T, file string) {
	t.Helper()
	out, err := exec.Command("ldd", file).CombinedOutput()
	if err != nil && !strings.Contains(string(out), "not a dynamic executable") {
		t.Fatalf("ldd: %v\n%s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		name := strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(name, "linux-vdso"), strings.HasPrefix(name, "libc.so.6"), strings.HasPrefix(name, "/lib"),
			strings.HasPrefix(name, "libresolv.so.2"), strings.HasPrefix(name, "libdl.so.2"), strings.HasPrefix(name, "libpthread.so.0"),
			strings.Contains(name, "not a dynamic executable"), strings.Contains(name, "statically linked"):
		default:
			t.Errorf("%s needs %s", filepath.Base(file), name)
		}
	}
}

// Protects the declarations of rdma-core's binary interface: the compiler compares
// them with the real headers, and needs none of those otherwise.
func TestInterface(t *testing.T) {
	testenv.Tools(t, "gcc")
	if _, err := os.Stat(headers); err != nil {
		testenv.Skip(t, "%s ('make tools' installs it)", headers)
	}
	files, err := filepath.Glob("../../verbs/ibv/*.c")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d C files, error %v", len(files), err)
	}
	strict := []string{"-std=gnu11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"}
	for _, extra := range []string{"-UIBV_WITHOUT_HEADERS", "-DIBV_WITHOUT_HEADERS"} {
		run(t, exec.Command("gcc", append(append(strict, extra), files...)...))
	}
	wrong := exec.Command("gcc", append(strict, wrongDeclaration(t))...)
	if out, err := wrong.CombinedOutput(); err == nil {
		t.Errorf("a wrong declaration is not seen: %s", out)
	}
}

// wrongDeclaration is a copy of the comparison with a field that is too large.
func wrongDeclaration(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"abi_linux.h", "abi_check_linux.c"} {
		b, err := os.ReadFile(filepath.Join("../../verbs/ibv", name))
		if err != nil {
			t.Fatal(err)
		}
		b = bytes.Replace(b, []byte("int active_mtu;"), []byte("long active_mtu;"), 1)
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "abi_check_linux.c")
}

// Protects the rule of one room: no other package calls C.
func TestOnlyOnePackageUsesC(t *testing.T) {
	list := exec.Command("go", "list", "-f", "{{if .CgoFiles}}{{.ImportPath}}{{end}}", "rbd/...")
	list.Env = append(os.Environ(), "CGO_ENABLED=1")
	if got := strings.TrimSpace(run(t, list)); got != "rbd/verbs/ibv" {
		t.Errorf("packages with cgo: %q", got)
	}
}

func run(t *testing.T, c *exec.Cmd) string {
	t.Helper()
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	if err := c.Run(); err != nil {
		t.Fatalf("%v: %v\n%s%s", c.Args, err, out.Bytes(), errs.Bytes())
	}
	return out.String()
}
