package image

import (
	"bytes"
	"os/exec"
	"slices"
	"testing"

	"rbd/internal/testenv"
)

// Protects the choice of the kernel: the newest by number, never a variant (cloud,
// rt, unsigned, debug) that lacks drivers.
func TestNewestOf(t *testing.T) {
	packages := []string{
		"linux-image-6.12.9+deb12-amd64", "linux-image-6.12.113+deb12-amd64", "linux-image-6.12.117+deb12-amd64-dbg",
		"linux-image-6.12.117+deb12-cloud-amd64", "linux-image-6.12.118+deb12-amd64-unsigned", "linux-image-6.12-amd64", "linux-image-6.1.0-9-amd64", "linux-image-6.1.0-30-amd64", "linux-image-6.1.0-31-rt-amd64",
	}
	for series, want := range map[string]string{"6.12": "6.12.113+deb12-amd64", "6.1": "6.1.0-30-amd64", "6.11": ""} {
		if got := newestOf(packages, series); got != want {
			t.Errorf("newest of %s is %q, want %q", series, got, want)
		}
	}
}

// Protects the list of packages that the build of siw needs.
func TestBuildPackages(t *testing.T) {
	got := buildPackages("linux-base (>= 4.12~), linux-headers-6.12.117+deb12-common (= 6.12.117-1~deb12u1), linux-image-6.12.117+deb12-amd64 (= 1) | x, linux-kbuild-6.12.117+deb12, gcc-12")
	if want := []string{"linux-headers-6.12.117+deb12-common", "linux-kbuild-6.12.117+deb12"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Protects the initial RAM disk: another program must read the archive as it was
// written, names and contents of every length modulo four.
func TestArchive(t *testing.T) {
	testenv.Tools(t, "cpio")
	var b bytes.Buffer
	a := archive{w: &b}
	a.add("d", modeDir|0o755, nil)
	var want bytes.Buffer
	for _, name := range []string{"d/a", "d/bb", "d/ccc", "d/dddd", "d/eeeee"} {
		a.add(name, modeFile|0o644, []byte(name[2:]))
		want.WriteString(name[2:])
	}
	a.finish()
	if a.err != nil {
		t.Fatal(a.err)
	}
	cmd := exec.Command("cpio", "-i", "--to-stdout", "--quiet")
	cmd.Stdin = &b
	got, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want.Bytes()) {
		t.Errorf("cpio reads %q, want %q", got, want.Bytes())
	}
}
