package registry

import "time"

// Record is what a process has connected.
type Record struct {
	PID int `json:"pid"`
	// NQN is the subsystem, Address the target, HostNQN this host.
	NQN     string `json:"nqn"`
	Address string `json:"address"`
	HostNQN string `json:"hostnqn"`
	// State is that of the connection to the target: live, reconnecting, lost.
	State string    `json:"state"`
	Since time.Time `json:"since"`
	// Listen is where NBD is served: the paths of Unix sockets, HOST:PORT of others.
	Listen []string `json:"listen,omitempty"`
	Disks  []Disk   `json:"disks"`
}

// Disk is one namespace of a process.
type Disk struct {
	NSID uint32 `json:"nsid"`
	// Device is /dev/nbdN, URI that of an NBD socket; one of them is set.
	Device    string `json:"device,omitempty"`
	URI       string `json:"uri,omitempty"`
	Size      uint64 `json:"size"`
	BlockSize uint32 `json:"block_size"`
	// UUID is the namespace's identity, which the same NQN and number may not have
	// for ever.
	UUID string `json:"uuid"`
	// Connections is how many sockets the kernel has for a device.
	Connections int `json:"connections,omitempty"`
}

// Name is the device or the URI.
func (d Disk) Name() string {
	if d.Device != "" {
		return d.Device
	}
	return d.URI
}

// Disconnect asks for the end of disks.
type Disconnect struct {
	// Device names the one to end; empty for all of the process.
	Device string `json:"device,omitempty"`
	// Force: do not ask who uses it.
	Force bool `json:"force,omitempty"`
}

// request and response are the lines on the socket.
type request struct {
	// Disconnect is nil for a question.
	Disconnect *Disconnect `json:"disconnect,omitempty"`
}

type response struct {
	Record Record `json:"record"`
	Error  string `json:"error,omitempty"`
	// Ending: the process ends, and closes the connection when it does. Outcome: it
	// sends a second response before, whose Error is how it has ended.
	Ending  bool `json:"ending,omitempty"`
	Outcome bool `json:"outcome,omitempty"`
}
