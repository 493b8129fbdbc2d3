package image

import (
	"bytes"
	"compress/gzip"
	"context"
	_ "embed"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
)

//go:embed init.sh
var initScript []byte

// bootModules are those that the guest needs before it sees the host's files and the
// agent's port. Some kernels have some of them built in.
var bootModules = []string{"virtio_pci", "virtio_console", "9p", "9pnet_virtio", "overlay", "virtio_net"}

// WriteInitramfs makes the initial RAM disk for the kernel.
func (k Kernel) WriteInitramfs(ctx context.Context, file string) error {
	var b bytes.Buffer
	gz, err := gzip.NewWriterLevel(&b, gzip.BestSpeed)
	if err != nil {
		return err
	}
	a := archive{w: gz}
	for _, dir := range []string{"bin", "proc", "sys", "dev", "modules"} {
		a.add(dir, modeDir|0o755, nil)
	}
	a.add("init", modeFile|0o755, initScript)
	busybox, err := os.ReadFile(k.busybox())
	if err != nil {
		return err
	}
	a.add("bin/busybox", modeFile|0o755, busybox)
	modules, err := k.modulesInOrder(ctx)
	if err != nil {
		return err
	}
	var order strings.Builder
	for _, m := range modules {
		ko, err := readModule(ctx, m)
		if err != nil {
			return err
		}
		name := strings.TrimSuffix(filepath.Base(m), ".xz")
		a.add(path.Join("modules", name), modeFile|0o644, ko)
		fmt.Fprintln(&order, name)
	}
	a.add("order", modeFile|0o644, []byte(order.String()))
	a.finish()
	if a.err != nil {
		return a.err
	}
	if err := gz.Close(); err != nil {
		return err
	}
	return os.WriteFile(file, b.Bytes(), 0o644)
}

// modulesInOrder returns the files of bootModules and of all that they need, each
// after those that it needs.
func (k Kernel) modulesInOrder(ctx context.Context) (files []string, err error) {
	seen := map[string]bool{}
	for _, m := range bootModules {
		out, err := command(ctx, "", "modprobe", "-d", k.dir, "-S", k.Version, "--show-depends", m)
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(out) {
			f := strings.Fields(line)
			if len(f) < 2 || f[0] != "insmod" || seen[f[1]] {
				continue
			}
			seen[f[1]] = true
			files = append(files, f[1])
		}
	}
	return files, nil
}

func readModule(ctx context.Context, file string) ([]byte, error) {
	if !strings.HasSuffix(file, ".xz") {
		return os.ReadFile(file)
	}
	out, err := command(ctx, "", "xz", "-dc", file)
	return []byte(out), err
}
