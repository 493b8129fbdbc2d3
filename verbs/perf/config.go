package perf

import (
	"fmt"
	"time"
)

// DefaultPort is the port of perftest's programs.
const DefaultPort = "18515"

// Limits of a test.
const (
	// MaxSize bounds the bytes of a message, as in perftest.
	MaxSize = 1 << 23
	// MinIterations and MaxIterations bound Config.Iterations. The time of each is
	// kept.
	MinIterations, MaxIterations = 5, 10_000_000
	// MaxDuration bounds the time of a test.
	MaxDuration = time.Hour
	// MaxTxDepth bounds Config.TxDepth, as in perftest; the device's limit may be
	// lower.
	MaxTxDepth = 15000
	// DefaultTxDepth is what a TxDepth of 0 means, as in perftest.
	DefaultTxDepth = 128
)

// iterationsTime bounds a test that counts iterations.
const iterationsTime = 10 * time.Minute

// Config is one test.
type Config struct {
	Op Op
	// Size is the length of a message, 1..MaxSize bytes.
	Size int
	// Iterations is how many messages are measured. 0 means Op's default, or that
	// Duration decides.
	Iterations int
	// Duration measures for a time instead; it goes without Iterations. A latency
	// test ends early after MaxIterations.
	Duration time.Duration
	// TxDepth is how many requests a bandwidth test keeps out; 0 is
	// DefaultTxDepth. Latency tests have one.
	TxDepth int
	// Poll makes both ends poll their completion queues instead of being called:
	// one CPU on each side is busy all the time, and adapters answer sooner.
	// WriteLat looks at memory all the time anyway, and takes no notice.
	Poll bool
	// Connected is called when the server has accepted the test, unless it is nil.
	Connected func()
}

// complete fills in the defaults and checks the rest.
func (c *Config) complete() error {
	if !c.Op.valid() {
		return fmt.Errorf("%s is no test", c.Op)
	}
	if c.Iterations == 0 && c.Duration == 0 {
		c.Iterations = c.Op.DefaultIterations()
	}
	if c.TxDepth == 0 {
		c.TxDepth = DefaultTxDepth
	}
	switch {
	case c.Size < 1 || c.Size > MaxSize:
		return fmt.Errorf("size %d is not from 1 to %d bytes", c.Size, MaxSize)
	case c.Iterations != 0 && c.Duration != 0:
		return fmt.Errorf("%d iterations and a duration of %v exclude each other", c.Iterations, c.Duration)
	case c.Duration == 0 && (c.Iterations < MinIterations || c.Iterations > MaxIterations):
		return fmt.Errorf("%d iterations are not from %d to %d", c.Iterations, MinIterations, MaxIterations)
	case c.Duration < 0 || c.Duration > MaxDuration:
		return fmt.Errorf("duration %v is not from 0 to %v", c.Duration, MaxDuration)
	case c.TxDepth < 1 || c.TxDepth > MaxTxDepth:
		return fmt.Errorf("depth %d is not from 1 to %d", c.TxDepth, MaxTxDepth)
	}
	return nil
}

// Check says what is wrong with the test, if anything.
func (c Config) Check() error { return c.complete() }

// iterations is how many the test may have at most.
func (c *Config) iterations() int {
	if c.Duration > 0 {
		return MaxIterations
	}
	return c.Iterations
}

// recorded is for how many iterations there is room from the start. More make the
// records grow, which costs a few iterations among a million some time.
const recorded = 1 << 20

// limit is the time that the test may take.
func (c *Config) limit() time.Duration {
	if c.Duration > 0 {
		return c.Duration
	}
	return iterationsTime
}

// window is the part of the time that counts; from 0 to the end without Duration.
func (c *Config) window() (from, to time.Duration) {
	if c.Duration > 0 {
		return c.Duration / 4, c.Duration - c.Duration/4
	}
	return 0, 1<<63 - 1
}

// signalEvery is how many requests of a bandwidth test share a completion
// (perftest's CQ moderation and its rule for large messages).
func (c *Config) signalEvery() int {
	const moderation, large = 100, 8192
	if c.Size > large {
		return 1
	}
	return min(moderation, c.TxDepth)
}
