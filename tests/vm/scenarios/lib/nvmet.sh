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

# kernel_namespace NQN NSID FILE [ro|plain]: exports a file as block device (blocks of
# 512 bytes), read-only, or plainly as a file (blocks of 4096 bytes on tmpfs, and no
# zeroing of ranges there).
kernel_namespace() {
	local ns=$nvmet/subsystems/$1/namespaces/$2 device=$3
	case ${4:-} in
	plain) ;;
	ro) device=$(losetup --read-only --find --show "$3") ;;
	*) device=$(losetup --find --show "$3") ;;
	esac
	[ "$device" = "$3" ] || defer losetup -d "$device"
	mkdir "$ns"
	defer rmdir "$ns"
	echo -n "$device" >"$ns/device_path"
	echo 1 >"$ns/enable"
	defer eval "echo 0 >$ns/enable"
}
