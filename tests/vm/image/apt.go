package image

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
)

// series is the kernel whose newest packages are used.
const series = "6.12"

var imagePackage = regexp.MustCompile(`^linux-image-(` + regexp.QuoteMeta(series) + `\.(\d+)[^-]*-amd64)$`)

// newestKernel returns the newest kernel of the series that the machine's apt
// sources have, as uname -r names it.
func newestKernel(ctx context.Context) (string, error) {
	out, err := command(ctx, "", "apt-cache", "pkgnames", "linux-image-"+series)
	if err != nil {
		return "", err
	}
	version := newestOf(strings.Fields(out))
	if version == "" {
		return "", fmt.Errorf("no package linux-image-%s.*-amd64 in this machine's apt sources: run apt-get update, or add Debian's security or backports archive", series)
	}
	return version, nil
}

func newestOf(packages []string) (version string) {
	newest := -1
	for _, name := range packages {
		m := imagePackage.FindStringSubmatch(name)
		if m == nil {
			continue
		}
		if n, err := strconv.Atoi(m[2]); err == nil && n > newest {
			newest, version = n, m[1]
		}
	}
	return version
}

// packagesOf returns the packages that hold the kernel, what is needed to build a
// module for it, its source, and the guest's first tools, each with the version if
// that must be the kernel's.
func packagesOf(ctx context.Context, kernel string) ([]string, error) {
	show, err := command(ctx, "", "apt-cache", "show", "--no-all-versions", "linux-headers-"+kernel)
	if err != nil {
		return nil, err
	}
	names := []string{"linux-image-" + kernel, "linux-headers-" + kernel, "busybox-static"}
	for line := range strings.Lines(show) {
		line = strings.TrimSpace(line)
		if deps, ok := strings.CutPrefix(line, "Depends: "); ok {
			names = append(names, buildPackages(deps)...)
		}
		if v, ok := strings.CutPrefix(line, "Version: "); ok {
			names = append(names, "linux-source-"+series+"="+v)
		}
	}
	return names, nil
}

// buildPackages picks the packages with headers and build scripts from the
// dependencies of a linux-headers package.
func buildPackages(depends string) (names []string) {
	for d := range strings.SplitSeq(depends, ",") {
		name, _, _ := strings.Cut(strings.TrimSpace(d), " ")
		if strings.HasPrefix(name, "linux-headers-") || strings.HasPrefix(name, "linux-kbuild-") {
			names = append(names, name)
		}
	}
	return names
}

// command runs a program in a folder and returns what it printed; a failure tells
// the end of what the program said.
func command(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		said := strings.TrimSpace(stderr.String())
		if len(said) > 2000 {
			said = "..." + said[len(said)-2000:]
		}
		return "", fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, said)
	}
	return stdout.String(), nil
}
