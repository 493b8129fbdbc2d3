//go:build race

package e2e

// race: the tests run with the race detector, and so do the programs.
const race = true
