package command

import (
	"cmp"
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/urfave/cli/v2"
)

// versionFlag is --version; the library's own has -v for a short form, which means
// verbose here.
func versionFlag() cli.Flag {
	return &cli.BoolFlag{Name: "version", Usage: "print the version of the program"}
}

func printVersion(c *cli.Context) error {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = new(debug.BuildInfo)
	}
	if _, err := fmt.Fprintf(c.App.Writer, "%s %s\n", c.App.Name, Version(info)); err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	return nil
}

// Version is the module's version, the revision that was built and the compiler, as far
// as the build has noted them.
func Version(info *debug.BuildInfo) string {
	parts := []string{strings.Trim(cmp.Or(info.Main.Version, "unknown"), "()")}
	settings := make(map[string]string)
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	if r := settings["vcs.revision"]; r != "" {
		parts = append(parts, "revision "+r)
	}
	if settings["vcs.modified"] == "true" {
		parts = append(parts, "modified")
	}
	if info.GoVersion != "" {
		parts = append(parts, info.GoVersion)
	}
	return strings.Join(parts, ", ")
}
