package image

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// newestKernel returns the newest kernel of a series, such as 6.12, that the machine's
// apt sources have, as uname -r names it.
func newestKernel(ctx context.Context, series string) (string, error) {
	out, err := command(ctx, "", "apt-cache", "pkgnames", "linux-image-"+series)
	if err != nil {
		return "", err
	}
	version := newestOf(strings.Fields(out), series)
	if version == "" {
		return "", fmt.Errorf("no package linux-image-%s.*-amd64 in this machine's apt sources: run apt-get update, or add Debian's archives", series)
	}
	return version, nil
}

// newestOf picks the newest kernel from names of packages. Those of the series 6.12
// are like linux-image-6.12.117+deb12-amd64, those of 6.1 like linux-image-6.1.0-57-amd64.
func newestOf(packages []string, series string) (version string) {
	pattern := regexp.MustCompile(`^linux-image-(` + regexp.QuoteMeta(series) + `\.(\d+)(?:-(\d+))?(?:\+[a-z0-9.]+)?-amd64)$`)
	newest := [2]int{-1, -1}
	for _, name := range packages {
		m := pattern.FindStringSubmatch(name)
		if m == nil {
			continue
		}
		patch, _ := strconv.Atoi(m[2])
		abi, _ := strconv.Atoi(m[3]) // 0 where there is none
		if n := [2]int{patch, abi}; slices.Compare(n[:], newest[:]) > 0 {
			newest, version = n, m[1]
		}
	}
	return version
}

// packagesOf returns the packages that hold the kernel, what is needed to build a
// module for it, its source, and the guest's first tools, each with the version if
// that must be the kernel's.
func packagesOf(ctx context.Context, series, kernel string) ([]string, error) {
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
