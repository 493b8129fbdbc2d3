package vm

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// MachineConfig is what differs between the machines of a lab.
type MachineConfig struct {
	// Name is used for the machine's files; it is unique among those that run.
	Name string
	// Peer is the name of the machine at the other end of the wire that eth0 is
	// connected to. Without one there is no eth0.
	Peer string
	// Boot makes systemd the first program, with the files of this folder of scenarios/
	// over those of the host.
	Boot string
	// Shell makes the machine run an interactive shell on the serial console, in
	// place of the agent.
	Shell bool
}

// qemuArgs returns the arguments of QEMU. The agent's port is connected to the
// socket control, where the runner listens.
func (l *Lab) qemuArgs(c MachineConfig, control string) []string {
	// A kernel that faults ends the machine, which fails the scenario at once. That
	// a processor stands still for long, however, happens under emulation.
	cmdline := "console=ttyS0 loglevel=4 panic=-1 oops=panic net.ifnames=0 rcupdate.rcu_cpu_stall_suppress=1 nosoftlockup mitigations=off"
	if c.Boot != "" {
		cmdline += " rbd.boot=" + c.Boot + " TERM=dumb"
	}
	// With ERMS the kernel copies and clears by "rep movsb" and "rep stosb", which the
	// emulation does a byte at a time: a socket carries 180 MiB/s in place of 1160.
	args := []string{"-accel", "tcg,thread=multi", "-cpu", "max,la57=off,erms=off"}
	if os.Getenv("RBD_VM_ACCEL") == "kvm" {
		args = []string{"-accel", "kvm", "-cpu", "host"}
	}
	args = append(args, "-smp", "2", "-m", "3072", "-no-reboot", "-display", "none", "-nodefaults",
		"-kernel", l.Kernel.Image(), "-initrd", l.initramfs)
	if c.Shell {
		cmdline += " rbd.shell"
		args = append(args, "-serial", "mon:stdio")
	} else {
		args = append(args, "-monitor", "none", "-serial", "file:"+comma(l.console(c.Name)),
			"-device", "virtio-serial-pci", "-chardev", "socket,id=agent,path="+comma(control),
			"-device", "virtserialport,chardev=agent,name=agent")
	}
	args = append(args, "-append", cmdline)
	args = append(args, share("host", "/", true)...)
	args = append(args, share("share", l.Share(), false)...)
	args = append(args, share("modules", l.Kernel.Modules(), true)...)
	if c.Peer != "" { // the last byte of the MAC address is 0 for one, and 2 for the other
		args = append(args, "-netdev", fmt.Sprintf("dgram,id=net,local.type=unix,local.path=%s,remote.type=unix,remote.path=%s", comma(l.wire(c.Name)), comma(l.wire(c.Peer))),
			"-device", fmt.Sprintf("virtio-net-pci,netdev=net,romfile=,mac=52:54:00:00:00:%02x", 1+strings.Compare(c.Name, c.Peer)))
	}
	return args
}

// share lets the guest mount a folder of the host by its tag.
func share(tag, dir string, readOnly bool) []string {
	fsdev := "local,security_model=none,multidevs=remap,id=" + tag + ",path=" + comma(dir)
	if readOnly {
		fsdev += ",readonly=on"
	}
	return []string{"-fsdev", fsdev, "-device", "virtio-9p-pci,fsdev=" + tag + ",mount_tag=" + tag}
}

// comma doubles commas, as QEMU's options want it.
func comma(s string) string { return strings.ReplaceAll(s, ",", ",,") }

// console is the file with what a machine wrote to its serial console.
func (l *Lab) console(name string) string { return filepath.Join(l.Dir, name+".console") }

// wire is the socket where a machine gets its network packets. It does not matter
// which of two machines comes first.
func (l *Lab) wire(name string) string { return filepath.Join(l.Dir, name+".wire") }
