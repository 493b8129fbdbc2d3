package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// Exit codes of both programs.
const (
	ExitDone   = 0
	ExitFailed = 1
	ExitUsage  = 2
)

// UsageError is a fault of the command line itself, or of a file that it names.
type UsageError struct {
	Msg string
	// InFile says that it is the file: the help of the command is no help then.
	InFile bool
}

func (e *UsageError) Error() string { return e.Msg }

// Usagef makes a UsageError.
func Usagef(format string, args ...any) error {
	return &UsageError{Msg: fmt.Sprintf(format, args...)}
}

// ConfigError makes a UsageError of what is wrong in a configuration file.
func ConfigError(path string, err error) error {
	return &UsageError{Msg: fmt.Sprintf("configuration %s: %v", path, err), InFile: true}
}

// minProcs is the least GOMAXPROCS. A goroutine that waits for a socket keeps its
// processor for a while (see internal/sockio), and the initiator has two for each busy
// I/O queue. These are enough for eight queues.
const minProcs = 16

// Main runs the application with the process's arguments until it is done or is asked
// to end by a signal (see NotifyContext), and exits.
func Main(app *cli.App) {
	if os.Getenv("GOMAXPROCS") == "" && runtime.GOMAXPROCS(0) < minProcs {
		runtime.GOMAXPROCS(minProcs)
	}
	ctx, stop := NotifyContext(context.Background(), os.Stderr, app.Name, func() { os.Exit(ExitFailed) })
	code := Run(ctx, app, os.Args, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// Run runs the application and returns the exit code. The error, if there is
// one, goes to stderr as one line that begins with the program's name.
func Run(ctx context.Context, app *cli.App, args []string, stdout, stderr io.Writer) int {
	harden(app)
	app.Writer, app.ErrWriter = stdout, stderr
	err := app.RunContext(ctx, args)
	if err == nil {
		return ExitDone
	}
	line := oneLine(err)
	if ctx.Err() != nil { // say what has ended it
		line = strings.ReplaceAll(line, context.Canceled.Error(), context.Cause(ctx).Error())
	}
	var usage *UsageError
	if errors.As(err, &usage) && !usage.InFile {
		line = fmt.Sprintf("%s; see '%s --help'", line, helpOf(app, args))
	}
	fmt.Fprintf(stderr, "%s: %s\n", app.Name, line)
	if usage != nil {
		return ExitUsage
	}
	return ExitFailed
}

// helpOf is the command whose help has what the command line is about.
func helpOf(app *cli.App, args []string) string {
	if len(args) > 1 {
		if cmd := app.Command(args[1]); cmd != nil {
			return app.Name + " " + cmd.Name
		}
	}
	return app.Name
}

// oneLine is the error's text in one line. Joined errors are separated by semicolons, and
// one that another has said already is left out.
func oneLine(err error) string {
	var parts []string
	for text := range strings.Lines(err.Error()) {
		text = strings.Join(strings.Fields(text), " ")
		said := func(p string) bool { return p == text || strings.HasSuffix(p, ": "+text) }
		if text != "" && !slices.ContainsFunc(parts, said) {
			parts = append(parts, text)
		}
	}
	return strings.Join(parts, "; ")
}

// harden turns off what the library does on its own: it splits values at
// commas, takes flags after an argument for arguments, exits the process, prints
// the whole help for a mistyped flag, and ignores superfluous arguments. It adds --version.
func harden(app *cli.App) {
	app.DisableSliceFlagSeparator = true
	app.HideVersion = true // -v means verbose here
	app.EnableBashCompletion = true
	app.ExitErrHandler = func(*cli.Context, error) {}
	app.OnUsageError = usageError
	app.Flags = append(app.Flags, versionFlag())
	app.Action = func(c *cli.Context) error {
		if c.Bool("version") {
			return printVersion(c)
		}
		if c.Args().Present() {
			return Usagef("unknown command %q", c.Args().First())
		}
		return Usagef("no command given")
	}
	for _, cmd := range app.Commands {
		action := cmd.Action
		cmd.OnUsageError = usageError
		cmd.Action = func(c *cli.Context) error {
			if err := noArguments(c); err != nil {
				return err
			}
			return action(c)
		}
	}
}

func usageError(_ *cli.Context, err error, _ bool) error {
	return &UsageError{Msg: err.Error()}
}

// noArguments refuses what follows the flags; a flag among it would have been
// ignored, so it is named first.
func noArguments(c *cli.Context) error {
	args := c.Args().Slice()
	for _, a := range args {
		if len(a) > 1 && strings.HasPrefix(a, "-") {
			return Usagef("%s: flag %q comes after the argument %q: put flags first, and give values as flags", c.Command.Name, a, args[0])
		}
	}
	if len(args) > 0 {
		return Usagef("%s: unexpected argument %q", c.Command.Name, args[0])
	}
	return nil
}

// Required refuses a command line that lacks one of the named flags.
func Required(c *cli.Context, names ...string) error {
	for _, n := range names {
		if c.String(n) == "" {
			return Usagef("%s: --%s is needed", c.Command.Name, n)
		}
	}
	return nil
}
