package ibv

import (
	"path/filepath"
	"strings"

	"rbd/verbs"
)

// Info is what there is to know of a device, usable or not.
type Info struct {
	Name string
	// Transport is InfiniBand, RoCE or iWARP.
	Transport string
	// Firmware is the version of its firmware; empty for devices without.
	Firmware string
	Ports    []Port
	// Attr are the limits; nil for a device that can't be used.
	Attr *verbs.DeviceAttr
}

// Describe lists the devices that the kernel has, with what rdma-core knows of
// them. The error says why those without Attr can't be used.
func (p *Provider) Describe() ([]Info, error) {
	usable := map[string]*device{}
	all, err := p.list()
	for _, d := range all {
		usable[d.name] = d
	}
	names := p.system.deviceNames()
	if err == nil && len(all) < len(names) {
		err = p.system.noDriver()
	}
	infos := make([]Info, 0, len(names))
	for _, name := range names {
		i := p.system.info(name)
		if d := usable[name]; d != nil {
			attr := d.attr
			i.Attr = &attr
			for n := range i.Ports {
				i.Ports[n].MTU = p.lib.portMTU(d.context, i.Ports[n].Number)
			}
		}
		infos = append(infos, i)
	}
	return infos, err
}

// info is what sysfs tells of a device.
func (s system) info(name string) Info {
	dir := filepath.Join(s.class(), name)
	i := Info{Name: name, Firmware: readWord(filepath.Join(dir, "fw_ver")), Ports: s.ports(name)}
	_, kind, _ := strings.Cut(readWord(filepath.Join(dir, "node_type")), ": ")
	switch {
	case kind == "RNIC":
		i.Transport = "iWARP"
	case len(i.Ports) > 0 && i.Ports[0].LinkLayer == "Ethernet":
		i.Transport = "RoCE"
	default:
		i.Transport = "InfiniBand"
	}
	return i
}

// MemoryLock is how much memory this process may register, how much of it is in
// use, in bytes, and whether the limit does not apply to it (CAP_IPC_LOCK, or no
// limit).
func (p *Provider) MemoryLock() (limit, used uint64, unbounded bool) {
	limit = p.memlock.limit()
	used, free := p.memlock.state()
	return limit, used, free || limit == unlimited
}
