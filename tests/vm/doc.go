// Package vm proves the programs with peers that the project did not write: the
// NVMe/RDMA host and target of the Linux kernel, in a virtual machine with a stock
// Debian kernel and software RDMA (siw).
//
// # Flow of a run
//
//  1. Package image prepares the kernel, in the user's cache folder.
//  2. A [Lab] holds what all machines of a run share: the initial RAM disk, and the
//     folder that they see as /vm, with our programs and the scenarios.
//  3. A [Machine] is QEMU under software emulation. Its root is the host's / ,
//     read-only under an overlay: what is installed here can be used there.
//  4. A [Scenario] is a bash script in scenarios/, with a head that says what it
//     proves. The agent (cmd/vmagent) runs it, and sends back its output, its
//     exit status, and what the kernel logged meanwhile.
//  5. Each scenario is a Go test, TestVM/NAME, with a log of its own. Scenarios
//     share a machine until one fails: the next one gets a fresh machine.
//  6. The run writes its results into the table of docs/interop.md.
//
// # Running
//
//	RBD_VM=short go test ./tests/vm -v -timeout 25m
//	RBD_VM=1 go test ./tests/vm -v -timeout 60m
//	RBD_VM=rdma go test ./tests/vm -v -timeout 60m
//	RBD_VM=1 go test ./tests/vm -v -run TestVM/host-basic
//	go run ./tests/vm/cmd/vmshell
//
// The short run, which is part of make test, has the scenarios that say "short: yes". The
// run "rdma" has those again that say on which other fabrics they run, over rdma:// on the
// kernel's RDMA devices.
//
// RBD_VM_KERNEL=6.1 takes the kernel of another series, if apt has its packages.
// RBD_VM_LOGS names the folder for the logs, otherwise rbd-vm/logs in the user's cache
// folder. RBD_VM_PATIENCE=N multiplies all time limits by N, for a machine that is
// busy with other things. RBD_VM_ACCEL=kvm uses KVM where that works; it is not the
// default, because a /dev/kvm that opens may still not run a kernel.
//
// # Adding a scenario
//
// Put NAME.sh into scenarios/. Its head is a comment of "key: value" lines, see
// [Scenario]. The functions of scenarios/lib/ set up fabrics, the kernel's target
// and our programs, and undo all of it at the end. With "machines: 2", the script
// runs in two machines at once, with ROLE=target and ROLE=host. With "boot: FOLDER",
// it runs in a machine that systemd boots, with our units and that folder's files in
// place, and, with PHASE=2, in a second boot of it. Both end by poweroff.
package vm
