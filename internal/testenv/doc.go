// Package testenv is the one place where a test may decide not to run: because a
// tool or a right is missing on this machine. Under continuous integration, where
// everything is installed, a missing tool is a failure.
package testenv
