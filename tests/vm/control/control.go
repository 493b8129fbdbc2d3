package control

import (
	"encoding/json"
	"time"
)

// Request is a program to run in the guest.
type Request struct {
	// Argv is the program and its arguments.
	Argv []string
	// Env is added to the agent's environment.
	Env []string
	// Timeout bounds the program. It is sent SIGTERM then, with its whole process
	// group, and SIGKILL after [Grace].
	Timeout time.Duration
}

// Grace is the time that a program has to end after SIGTERM.
const Grace = 15 * time.Second

// Message is what the agent says. One of the fields is set.
type Message struct {
	// Hello is the first message: the agent is ready.
	Hello *Hello `json:",omitempty"`
	// Output is what the program wrote to standard output and standard error, in
	// the order written.
	Output []byte `json:",omitempty"`
	// Result ends the request.
	Result *Result `json:",omitempty"`
}

// Hello names the guest.
type Hello struct {
	Kernel string // uname -r
}

// Result is how a request ended.
type Result struct {
	// Exit is the program's exit status, 128 and the signal's number for one that
	// a signal ended, and -1 if it did not start.
	Exit int
	// TimedOut says that the program was ended because its time was over.
	TimedOut bool
	// Error says why the program did not start or did not end.
	Error string `json:",omitempty"`
	// KernelLog is what the kernel logged meanwhile, one record a line, with the
	// priority as a number in angle brackets in front.
	KernelLog string
	Duration  time.Duration
}

// Encode returns a message or request as one line.
func Encode(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	return append(b, '\n'), err
}
