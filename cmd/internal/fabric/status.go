package fabric

import (
	"net/netip"

	"rbd/verbs"
	"rbd/verbs/ibv"
	"rbd/verbs/iwarp"
)

// Status is one fabric of this machine.
type Status struct {
	Fabric  string   `json:"fabric"`
	Usable  bool     `json:"usable"`
	Devices []Device `json:"devices"`
	// Problem says why the fabric, or some of its devices, can't be used, and the
	// remedy.
	Problem string `json:"problem,omitempty"`
	// MemoryLock is how much memory may be registered; nil where it does not matter.
	MemoryLock *MemoryLock `json:"memory_lock,omitempty"`
}

// MemoryLock is the memory-lock limit of this process, in bytes.
type MemoryLock struct {
	Limit     uint64 `json:"limit"`
	Used      uint64 `json:"used"`
	Unbounded bool   `json:"unbounded"` // the limit does not apply
}

// Device is an RDMA device, or a software one.
type Device struct {
	Name      string  `json:"name"`
	Usable    bool    `json:"usable"`
	Transport string  `json:"transport"`
	Firmware  string  `json:"firmware,omitempty"`
	Ports     []Port  `json:"ports"`
	Limits    *Limits `json:"limits,omitempty"`
}

// Port is a port of an RDMA device.
type Port struct {
	Number    int      `json:"port"`
	State     string   `json:"state"`
	LinkLayer string   `json:"link_layer"`
	Rate      string   `json:"rate,omitempty"`
	MTU       int      `json:"mtu,omitempty"`
	NetDevs   []string `json:"netdevs"`
	GIDs      []GID    `json:"gids"`
}

// GID is an address of a port.
type GID struct {
	Index  int        `json:"index"`
	Addr   netip.Addr `json:"address"`
	Type   string     `json:"type"`
	NetDev string     `json:"netdev,omitempty"`
}

// Limits are what a device allows (ibv_device_attr).
type Limits struct {
	WorkRequests   int    `json:"max_qp_wr"`
	SGEs           int    `json:"max_sge"`
	ReadSGEs       int    `json:"max_sge_rd"`
	Completions    int    `json:"max_cqe"`
	Regions        int    `json:"max_mr"`
	RegionSize     uint64 `json:"max_mr_size"`
	ReadsIn        int    `json:"max_qp_rd_atom"`
	ReadsOut       int    `json:"max_qp_init_rd_atom"`
	Inline         int    `json:"max_inline_data"`
	PrivateData    int    `json:"max_private_data"`
	SendWithInv    bool   `json:"send_with_invalidate"`
	TakesSendInval bool   `json:"remote_invalidate"`
}

func limits(a verbs.DeviceAttr) *Limits {
	return &Limits{WorkRequests: a.MaxQPWR, SGEs: a.MaxSGE, ReadSGEs: a.MaxSGERead, Completions: a.MaxCQE, Regions: a.MaxMR,
		RegionSize: a.MaxMRSize, ReadsIn: a.MaxQPRdAtom, ReadsOut: a.MaxQPInitRdAtom, Inline: a.MaxInline,
		PrivateData: a.MaxPrivateData, SendWithInv: a.SendWithInv, TakesSendInval: a.RemoteInvalidate}
}

// Status lists the fabrics and their devices.
func (f *Fabrics) Status() []Status { return []Status{f.iwarpStatus(), f.rdmaStatus()} }

func (f *Fabrics) iwarpStatus() Status {
	s := Status{Fabric: iwarp.Name, Devices: []Device{}}
	devices, err := f.iwarp.Devices()
	if err != nil {
		s.Problem = err.Error()
	}
	for _, d := range devices {
		s.Devices = append(s.Devices, Device{Name: d.Name(), Usable: true, Transport: "iWARP in software, on TCP", Ports: []Port{}, Limits: limits(d.Attr())})
	}
	s.Usable = len(devices) > 0
	return s
}

func (f *Fabrics) rdmaStatus() Status {
	infos, err := f.rdma.Describe()
	s := Status{Fabric: ibv.Name, Devices: []Device{}, MemoryLock: &MemoryLock{}}
	s.MemoryLock.Limit, s.MemoryLock.Used, s.MemoryLock.Unbounded = f.rdma.MemoryLock()
	if err != nil {
		s.Problem = err.Error()
	}
	for _, i := range infos {
		d := Device{Name: i.Name, Usable: i.Attr != nil, Transport: i.Transport, Firmware: i.Firmware, Ports: []Port{}}
		if i.Attr != nil {
			d.Limits = limits(*i.Attr)
		}
		for _, p := range i.Ports {
			port := Port{Number: p.Number, State: p.State, LinkLayer: p.LinkLayer, Rate: p.Rate, MTU: p.MTU, NetDevs: append([]string{}, p.NetDevs...), GIDs: []GID{}}
			for _, g := range p.GIDs {
				port.GIDs = append(port.GIDs, GID(g))
			}
			d.Ports = append(d.Ports, port)
		}
		s.Usable = s.Usable || d.Usable
		s.Devices = append(s.Devices, d)
	}
	return s
}
