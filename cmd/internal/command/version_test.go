package command_test

import (
	"bytes"
	"context"
	"runtime/debug"
	"strings"
	"testing"

	"rbd/cmd/internal/command"
)

// Protects reports of faults from guesses which build it was.
func TestVersion(t *testing.T) {
	var out, errs bytes.Buffer
	if code := command.Run(context.Background(), app(nil), []string{"rbd-x", "--version"}, &out, &errs); code != 0 || errs.Len() > 0 || !strings.HasPrefix(out.String(), "rbd-x ") || strings.Count(out.String(), "\n") != 1 {
		t.Errorf("exit %d, %q, %q", code, out.String(), errs.String())
	}
	for _, c := range []struct {
		info debug.BuildInfo
		want string
	}{
		{debug.BuildInfo{}, "unknown"},
		{debug.BuildInfo{GoVersion: "go1.26.8", Main: debug.Module{Version: "(devel)"}}, "devel, go1.26.8"},
		{debug.BuildInfo{
			GoVersion: "go1.26.8", Main: debug.Module{Version: "v1.2.3"},
			Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "0123abcd"}, {Key: "vcs.modified", Value: "true"}},
		}, "v1.2.3, revision 0123abcd, modified, go1.26.8"},
	} {
		if got := command.Version(&c.info); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
