package nbd

import "time"

// SetStall makes the patience with clients that don't read testable.
func SetStall(d time.Duration) func(*Server) { return func(s *Server) { s.stall = d } }
