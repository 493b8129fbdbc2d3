# The kernel's NVMe target, set up through its configuration file system.
# shellcheck shell=bash

nvmet=/sys/kernel/config/nvmet

# kernel_target ADDR: a port of the kernel's target.
kernel_target() {
	modprobe -a configfs nvmet nvmet-rdma loop
	mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config
	mkdir $nvmet/ports/1
	defer rmdir $nvmet/ports/1
	echo rdma >$nvmet/ports/1/addr_trtype
	echo ipv4 >$nvmet/ports/1/addr_adrfam
	echo "$1" >$nvmet/ports/1/addr_traddr
	echo 4420 >$nvmet/ports/1/addr_trsvcid
}

# kernel_subsystem NQN: open to any host, without namespaces.
kernel_subsystem() {
	mkdir "$nvmet/subsystems/$1"
	defer rmdir "$nvmet/subsystems/$1"
	echo 1 >"$nvmet/subsystems/$1/attr_allow_any_host"
	ln -s "$nvmet/subsystems/$1" $nvmet/ports/1/subsystems/
	defer rm "$nvmet/ports/1/subsystems/$1"
}

# kernel_namespace NQN NSID FILE [plain]: exports a file as block device (blocks of 512
# bytes), or plainly as a file (blocks of 4096 bytes on tmpfs, and no zeroing of
# ranges there).
kernel_namespace() {
	local ns=$nvmet/subsystems/$1/namespaces/$2 device=$3
	if [ "${4:-}" != plain ]; then
		device=$(losetup --find --show "$3")
		defer losetup -d "$device"
	fi
	mkdir "$ns"
	defer rmdir "$ns"
	echo -n "$device" >"$ns/device_path"
	[ "$device" != "$3" ] || echo 1 >"$ns/buffered_io" # not each tmpfs can do without
	echo 1 >"$ns/enable"
	defer eval "echo 0 >$ns/enable"
}

# write_protect NQN NSID: makes a namespace read-only. nvmet opens all devices for
# writing, so this is a host's matter: the kernel's host does it.
write_protect() {
	nvme connect -t rdma -a $kernel_addr -s 4420 -n "$1" --hostnqn="$hostnqn" --hostid="$hostid" -i 1
	disk "$1" "$2"
	nvme set-feature "/dev/$(controller "$1")" -n "$2" -f 0x84 -v 1
	nvme disconnect -n "$1"
}
