package initiator

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"rbd/target"
)

// slowLog is a log that stops who writes that the controller is live again.
type slowLog struct {
	slog.Handler
	reached, open chan struct{}
	once          *sync.Once
}

func (s slowLog) Enabled(context.Context, slog.Level) bool { return true }

func (s slowLog) Handle(_ context.Context, r slog.Record) error {
	var from, to any
	r.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case "from":
			from = a.Value.Any()
		case "to":
			to = a.Value.Any()
		}
		return true
	})
	if from == StateReconnecting && to == StateLive {
		s.once.Do(func() {
			close(s.reached)
			<-s.open
		})
	}
	return nil
}

// Protects Close at the moment of a reconnect: it ends the association that comes to
// life, with the requests that waited for it, and takes no others.
func TestReconnectClose(t *testing.T) {
	for name, waiting := range map[string]bool{"idle": false, "waiting": true} {
		t.Run(name, func(t *testing.T) {
			log := slowLog{slog.DiscardHandler, make(chan struct{}), make(chan struct{}), new(sync.Once)}
			a := newAway(t)
			disk := disk1(ram(t, 1<<20, 512))
			a.serve(target.Config{}, anyHost, disk)
			c := a.connect(Options{Queues: 1, Logger: slog.New(log)})
			a.kill()
			a.state(c, StateReconnecting)
			back := make(returner, 2)
			if waiting {
				c.Queues()[0].Submit([]*Request{{Op: OpFlush, NSID: 1, Owner: back}})
			}
			a.serve(target.Config{}, anyHost, disk)
			<-log.reached // the state is live; the queues are not yet at work
			closed := make(chan error, 1)
			go func() { closed <- c.Close(short(t)) }()
			a.state(c, StateClosing)
			select {
			case <-c.life.Done(): // Close has missed the association
			case <-time.After(50 * time.Millisecond):
			}
			close(log.open)
			select {
			case err := <-closed:
				if err != nil {
					t.Errorf("close: %v", err)
				}
			case <-time.After(5 * time.Second):
				t.Error("Close does not end")
				a.kill() // so that it does
				return
			}
			c.Queues()[0].Submit([]*Request{{Op: OpFlush, NSID: 1, Owner: back}})
			if waiting {
				if r := <-back; r.Err != nil {
					t.Errorf("the request that waited: %v", r.Err)
				}
			}
			if r := <-back; !errors.Is(r.Err, ErrClosed) {
				t.Errorf("a later request: %v", r.Err)
			}
		})
	}
}
