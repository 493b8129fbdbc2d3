// Package control is the conversation between the runner of a virtual machine and
// the agent inside it. Both sides send JSON objects, one a line, over a
// virtio-serial port: the runner sends a [Request], the agent answers with
// [Message] objects, the last of which carries the [Result].
//
// The agent runs one request at a time. When the port closes, the agent ends and
// the machine powers off: a guest does not outlive its runner.
package control
