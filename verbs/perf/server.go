package perf

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"rbd/verbs"
)

// DefaultMaxTests is what a MaxTests of 0 means.
const DefaultMaxTests = 4

// Server serves the tests of clients. Its memory is bounded by MaxTests times
// twice MaxSize. The zero value is ready; set the fields before the first Serve.
type Server struct {
	// Log tells of each test; nil tells nobody.
	Log *slog.Logger
	// MaxTests is how many tests may run at a time; others are refused.
	MaxTests int

	once   sync.Once
	places chan struct{} // one for each test that runs
}

func (s *Server) init() {
	if s.Log == nil {
		s.Log = slog.New(slog.DiscardHandler)
	}
	if s.MaxTests <= 0 {
		s.MaxTests = DefaultMaxTests
	}
	s.places = make(chan struct{}, s.MaxTests)
}

// Serve serves the clients of a listener until ctx ends or the listener fails,
// and returns why. It ends the tests that run then. It may be called for several
// listeners.
func (s *Server) Serve(ctx context.Context, l verbs.Listener) error {
	s.once.Do(s.init)
	var sessions sync.WaitGroup
	defer sessions.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for {
		cm, err := l.GetRequest(ctx)
		if err != nil {
			return err
		}
		req, reason := s.admit(cm)
		if reason != 0 {
			s.refuse(cm, reason, reason)
			continue
		}
		sessions.Go(func() {
			defer func() { <-s.places }()
			s.serve(ctx, cm, req)
		})
	}
}

// admit checks a request and takes a place for it; 0 if it did.
func (s *Server) admit(cm verbs.CMID) (req Request, reason Reason) {
	if req.Parse(cm.Request().PrivateData) != nil {
		return req, ReasonMalformed
	}
	if reason := req.Check(); reason != 0 {
		return req, reason
	}
	select {
	case s.places <- struct{}{}:
		return req, 0
	default:
		return req, ReasonBusy
	}
}

func (s *Server) refuse(cm verbs.CMID, reason Reason, why error) {
	s.Log.Warn("test refused", "peer", cm.RemoteAddr(), "err", why)
	r := Reject{Reason: reason}
	if err := cm.Reject(r.Append(nil)); err != nil {
		s.Log.Debug("refuse a test", "peer", cm.RemoteAddr(), "err", err)
	}
}

// serve is one test, from its acceptance to its end.
func (s *Server) serve(ctx context.Context, cm verbs.CMID, req Request) {
	t := newSession(req)
	peer := cm.RemoteAddr()
	if err := t.open(cm, t.needs(cm.Device().Attr())); err != nil {
		s.refuse(cm, ReasonResources, err)
		return
	}
	log := s.Log.With("peer", peer, "op", req.Op, "size", req.Size)
	err := t.accept(ctx)
	if err == nil {
		log.Info("test begins")
		err = t.watch(ctx)
	}
	t.stop.Store(true)
	t.loops.Wait()
	switch e := t.close(); {
	case e != nil:
		log.Error("test ended", "err", errors.Join(err, e))
	case errors.Is(err, verbs.ErrDisconnected), ctx.Err() != nil:
		log.Info("test ended")
	default:
		log.Warn("test ended", "err", fmt.Errorf("it was cut: %w", err))
	}
}
