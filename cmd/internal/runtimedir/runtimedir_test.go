package runtimedir

import "testing"

// The order of precedence is what systemd units and users rely on.
func TestPath(t *testing.T) {
	for _, c := range []struct {
		runtime, xdg string
		euid         int
		want         string
	}{
		{"/run/unit:/run/other", "/run/user/7", 0, "/run/unit"},
		{"", "/run/user/7", 0, "/run/rbd"},
		{"", "/run/user/7", 7, "/run/user/7/rbd"},
		{"", "", 7, ""},
	} {
		env := map[string]string{"RUNTIME_DIRECTORY": c.runtime, "XDG_RUNTIME_DIR": c.xdg}
		got, err := path(func(k string) string { return env[k] }, c.euid)
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%+v: %q, %v", c, got, err)
		}
	}
}
