package image

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// The text of the recipe is part of the cached kernel's name.
var (
	//go:embed kernel.go
	kernelRecipe string
	//go:embed siw.go
	siwRecipe string
	//go:embed apt.go
	aptRecipe string
)

// Kernel is a kernel that is ready to boot.
type Kernel struct {
	Version string // as uname -r prints it
	series  string // such as 6.12
	dir     string
}

// Image is the path of the kernel image.
func (k Kernel) Image() string { return filepath.Join(k.dir, "boot", "vmlinuz-"+k.Version) }

// Modules is the path of the folder that belongs at /lib/modules.
func (k Kernel) Modules() string { return filepath.Join(k.dir, "lib", "modules") }

// busybox is the path of a statically linked busybox.
func (k Kernel) busybox() string { return filepath.Join(k.dir, "busybox") }

// Prepare returns the newest kernel of a series, such as 6.12, that this machine's apt
// sources have, from the cache folder or freshly made: that takes about a minute and 300 MB to download. Two
// callers at once wait for each other. The progress is told line by line to log.
func Prepare(ctx context.Context, series string, log func(format string, args ...any)) (Kernel, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return Kernel{}, fmt.Errorf("cache folder: %w", err)
	}
	cache = filepath.Join(cache, "rbd-vm")
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return Kernel{}, err
	}
	unlock, err := lock(filepath.Join(cache, "lock"))
	if err != nil {
		return Kernel{}, err
	}
	defer unlock()
	version, err := newestKernel(ctx, series)
	if err != nil && os.Geteuid() == 0 {
		log("updating apt's lists: %v", err)
		if _, err := command(ctx, "", "apt-get", "-qq", "update"); err != nil {
			return Kernel{}, err
		}
		version, err = newestKernel(ctx, series)
	}
	if err != nil {
		return Kernel{}, err
	}
	k := Kernel{Version: version, series: series, dir: filepath.Join(cache, version+"-"+recipe())}
	if _, err := os.Stat(k.dir); err == nil {
		return k, nil
	}
	return k, makeKernel(ctx, k, log)
}

// recipe is a short name for the way in which the kernel is made.
func recipe() string {
	sum := sha256.Sum256([]byte(kernelRecipe + siwRecipe + aptRecipe))
	return hex.EncodeToString(sum[:4])
}

// lock waits until no other process holds the lock file.
func lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return func() { f.Close() }, nil
}

// makeKernel makes the kernel's folder in another place and moves it, so that a
// folder of that name is always complete. Those of older kernels are removed.
func makeKernel(ctx context.Context, k Kernel, log func(string, ...any)) error {
	parent := filepath.Dir(k.dir)
	old, err := filepath.Glob(filepath.Join(parent, k.series+".*"))
	if err != nil {
		return err
	}
	for _, dir := range old {
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	dir := k.dir + ".part"
	work := filepath.Join(dir, "build")
	if err := os.MkdirAll(work, 0o755); err != nil {
		return err
	}
	log("kernel %s: downloading its packages", k.Version)
	if err := download(ctx, k, dir, work); err != nil {
		return err
	}
	log("kernel %s: building siw", k.Version)
	ko, err := buildSIW(ctx, k, dir, work)
	if err != nil {
		return err
	}
	updates := filepath.Join(dir, "lib", "modules", k.Version, "updates")
	if err := os.MkdirAll(updates, 0o755); err != nil {
		return err
	}
	if err := os.Rename(ko, filepath.Join(updates, "siw.ko")); err != nil {
		return err
	}
	if _, err := command(ctx, "", "depmod", "-b", dir, k.Version); err != nil {
		return err
	}
	for _, unused := range []string{work, filepath.Join(dir, "usr")} {
		if err := os.RemoveAll(unused); err != nil {
			return err
		}
	}
	return os.Rename(dir, k.dir)
}

// download fetches the packages and unpacks them in dir.
func download(ctx context.Context, k Kernel, dir, work string) error {
	packages, err := packagesOf(ctx, k.series, k.Version)
	if err != nil {
		return err
	}
	if _, err := command(ctx, work, "apt-get", append([]string{"-qq", "download"}, packages...)...); err != nil {
		return fmt.Errorf("%w (apt-get update may be needed)", err)
	}
	debs, err := filepath.Glob(filepath.Join(work, "*.deb"))
	if err != nil {
		return err
	}
	for _, deb := range debs {
		if _, err := command(ctx, "", "dpkg", "-x", deb, dir); err != nil {
			return err
		}
		if err := os.Remove(deb); err != nil {
			return err
		}
	}
	for _, path := range []string{"bin/busybox", "usr/bin/busybox"} {
		err := os.Rename(filepath.Join(dir, path), filepath.Join(dir, "busybox"))
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return fmt.Errorf("no busybox in the packages %s", strings.Join(packages, " "))
}
