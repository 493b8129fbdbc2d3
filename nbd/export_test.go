package nbd

import "time"

// SetStall makes the patience with clients that don't read testable.
func SetStall(d time.Duration) func(*Server) { return func(s *Server) { s.stall = d } }

// SetSettle does the same for the wait for clients that have left.
func SetSettle(d time.Duration) func(*Server) { return func(s *Server) { s.settle = d } }
