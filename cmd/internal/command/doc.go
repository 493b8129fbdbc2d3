// Package command is what both programs share in front of their work: running a
// urfave/cli application so that every error is one line on standard error and
// every outcome is one of three exit codes, signals, logging, and output as text
// or JSON.
//
//	0  done
//	1  failed: the request was understood and could not be done
//	2  wrong usage: the command line itself is at fault, or a configuration file
package command
