package image

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// buildSIW builds the module siw, which Debian's kernels leave out, from Debian's
// source of the same version. root is where the packages are unpacked.
func buildSIW(ctx context.Context, k Kernel, root, work string) (ko string, err error) {
	src := filepath.Join(root, "usr", "src")
	headers := filepath.Join(src, "linux-headers-"+k.Version)
	if err := relocate(filepath.Join(headers, "Makefile"), src); err != nil {
		return "", err
	}
	// Without it, the build does not ask for pahole, which makes type information
	// that nobody needs here.
	if err := os.RemoveAll(filepath.Join(headers, "vmlinux")); err != nil {
		return "", err
	}
	const driver = "drivers/infiniband/sw/siw"
	archive := filepath.Join(src, "linux-source-"+k.series+".tar.xz")
	if _, err := command(ctx, work, "nice", "tar", "-xf", archive, "--wildcards", "*/"+driver+"/*"); err != nil {
		return "", err
	}
	dir := filepath.Join(work, "linux-source-"+k.series, driver)
	if _, err := command(ctx, "", "nice", "make", "-s", "-C", headers, "M="+dir, "CONFIG_RDMA_SIW=m", "CC=gcc", "modules"); err != nil {
		return "", fmt.Errorf("build siw: %w", err)
	}
	return filepath.Join(dir, "siw.ko"), nil
}

// relocate makes a Makefile of the headers package include its common part from
// where that was unpacked, not from where it would be installed.
func relocate(makefile, src string) error {
	b, err := os.ReadFile(makefile)
	if err != nil {
		return err
	}
	return os.WriteFile(makefile, []byte(strings.ReplaceAll(string(b), "/usr/src", src)), 0o644)
}
