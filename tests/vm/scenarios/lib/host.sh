# The kernel's NVMe host.
# shellcheck shell=bash

modprobe -a nvme-rdma nvme-fabrics
hostnqn=nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555
hostid=11111111-2222-3333-4444-555555555555
nqn=nqn.2026-11.io.rbd:disk # of the disk in most scenarios

# connect ADDR NQN OPTION...: connects, and undoes it at the end.
connect() {
	local addr=$1 name=$2
	shift 2
	defer nvme disconnect -n "$name"
	nvme connect -t rdma -a "$addr" -s 4420 -n "$name" --hostnqn="$hostnqn" --hostid="$hostid" "$@"
}

# controllers NQN: the names of the host's controllers for a subsystem.
controllers() {
	local c name=
	for c in /sys/class/nvme/nvme*; do
		{ read -r name <"$c/subsysnqn"; } 2>/dev/null || continue
		[ "$name" != "$1" ] || echo "${c##*/}"
	done
}

# controller NQN: the first of them.
controller() { controllers "$1" | head -n 1 | grep .; }

# state NQN: live, resetting, connecting, ...
state() { cat "/sys/class/nvme/$(controller "$1")/state"; }

is_live() { [ "$(state "$1")" = live ]; }

# recoveries: how many connections the kernel's host has lost since the machine started.
recoveries() { dmesg | grep -c 'starting error recovery' || true; }

# find_disk NQN NSID: prints the block device of a namespace, if it is there. It starts
# no program: there may be many devices, and emulated processors are slow.
find_disk() {
	local d nsid= subsystem= size=
	for d in /sys/block/nvme*; do
		[ -e "$d/nsid" ] || continue
		{ read -r nsid <"$d/nsid" && read -r subsystem <"$d/device/subsysnqn" && read -r size <"$d/size"; } 2>/dev/null || continue
		[ "$nsid" = "$2" ] && [ "$subsystem" = "$1" ] && [ "$size" -gt 0 ] && [ -b "/dev/${d##*/}" ] || continue
		echo "/dev/${d##*/}"
		return
	done
	return 1
}

# disk NQN NSID: waits for the block device and prints its name.
disk() {
	eventually 20 find_disk "$1" "$2"
	find_disk "$1" "$2"
}

# field JSON-FILE NAME: a number or string of nvme-cli's JSON output.
field() { jq -r ".\"$2\"" "$1"; }
