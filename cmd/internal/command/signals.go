package command

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// repeatTime is how long after the first signal another one is taken for the same
// request: timeout(1) signals the process and then its group, which is the process once
// more, and a terminal that hangs up is told by the shell and by the kernel.
const repeatTime = time.Second

// NotifyContext returns a context that ends when the process is asked to end: by SIGINT,
// SIGTERM, or SIGHUP, unless nohup(1) or the like had that ignored. A SIGINT after that is
// somebody at a terminal who has waited long enough: ended is called. Another SIGTERM or
// SIGHUP is not: systemd sends SIGTERM a second time to what it does not kill (SendSIGKILL=no),
// such as a process whose disk is still in use. stop restores what signals did before.
func NotifyContext(parent context.Context, stderr io.Writer, name string, ended func()) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 8)
	wanted := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		wanted = append(wanted, syscall.SIGHUP)
	}
	signal.Notify(signals, wanted...)
	stopped := make(chan struct{})
	go func() {
		var first time.Time
		for {
			select {
			case s := <-signals:
				switch {
				case first.IsZero():
					first = time.Now()
					cancel(fmt.Errorf("%s signal received", s))
				case time.Since(first) < repeatTime:
				case s == os.Interrupt:
					fmt.Fprintf(stderr, "%s: %s while it was ending: ended at once, and what was not flushed may be lost\n", name, s)
					ended()
				default:
					fmt.Fprintf(stderr, "%s: %s while it is ending, which goes on; an interrupt (SIGINT, Ctrl-C) ends it at once\n", name, s)
				}
			case <-stopped:
				return
			}
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(stopped)
		cancel(context.Canceled)
	}
}
