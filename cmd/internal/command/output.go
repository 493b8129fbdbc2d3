package command

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os/signal"
	"syscall"

	"github.com/urfave/cli/v2"
)

// OutputFlags are -o and -v, which every command takes.
func OutputFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "output-format", Aliases: []string{"o"}, Value: "normal", Usage: "`FORMAT` of results: normal or json"},
		&cli.BoolFlag{Name: "verbose", Aliases: []string{"v"}, Usage: "tell more on standard error"},
	}
}

// JSON says whether results are to be JSON.
func JSON(c *cli.Context) (bool, error) {
	switch f := c.String("output-format"); f {
	case "normal":
		return false, nil
	case "json":
		return true, nil
	default:
		return false, Usagef("%s: output format %q is neither normal nor json", c.Command.Name, f)
	}
}

// PrintJSON writes v on w as JSON with a newline; one line if compact.
func PrintJSON(w io.Writer, v any, compact bool) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	if !compact {
		enc.SetIndent("", "  ")
	}
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	return nil
}

// Logger is the program's log on standard error.
func Logger(c *cli.Context) *slog.Logger {
	level := slog.LevelInfo
	if c.Bool("verbose") {
		level = slog.LevelDebug
	}
	return slog.New(slog.NewTextHandler(c.App.ErrWriter, &slog.HandlerOptions{Level: level}))
}

// OutliveReaders makes a line that nobody reads any more an error like others, which a
// log ignores. Without, SIGPIPE ends the process, and with it the disks of others: when
// systemd's journal ends or is restarted, nobody reads what services log.
func OutliveReaders() { signal.Ignore(syscall.SIGPIPE) }
