# The kernel's NVMe target, set up through its configuration file system.
# shellcheck shell=bash

nvmet=/sys/kernel/config/nvmet

# kernel_target ADDR: a port of the kernel's target.
kernel_target() {
	modprobe -a configfs nvmet nvmet-rdma
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

# kernel_namespace NQN NSID PATH [ro]: exports a block device or file.
kernel_namespace() {
	local ns=$nvmet/subsystems/$1/namespaces/$2 device=$3
	mkdir "$ns"
	defer rmdir "$ns"
	if [ "${4:-}" = ro ]; then # nvmet tells that a block device is read-only, of a file it does not
		device=$(losetup --read-only --find --show "$3")
		defer losetup -d "$device"
	fi
	echo -n "$device" >"$ns/device_path"
	echo 1 >"$ns/enable"
	defer eval "echo 0 >$ns/enable"
}
