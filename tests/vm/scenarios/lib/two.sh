# Scenarios of two machines: ROLE is target or host.
# shellcheck shell=bash

target_addr=10.99.1.1
host_addr=10.99.1.2

# machine: the interface to the other machine, lossy in the direction that it sends.
machine() {
	local addr=$host_addr
	where=(env)
	[ "$ROLE" = host ] || addr=$target_addr
	ip addr flush dev eth0
	ip addr add $addr/24 dev eth0
	ip link set eth0 mtu 1500 up
	modprobe sch_netem
	tc qdisc del dev eth0 root 2>/dev/null || true
	lossy eth0
}

# meet POINT: waits until the other machine has come to the same point. If it ends
# before, with an error, so does this one.
meet() {
	local dir=/vm/meet/$SCENARIO other=host
	[ "$ROLE" = target ] || other=target
	mkdir -p "$dir"
	: >"$dir/$1.$ROLE"
	step "waiting for the $other at: $1"
	until [ -e "$dir/$1.$other" ]; do
		[ ! -e "$dir/failed" ] || fail "the $other failed"
		sleep 0.2
	done
}

# serve: what the machine of our target does, to the end.
serve() {
	start target rbd-target serve -l iwarp://$target_addr:4420 --allow-any-host -e "ram:64M,nqn=$nqn"
	meet ready
	meet done
	stop target
	exit
}

# connect_and_verify: our initiator writes and reads back.
connect_and_verify() {
	start initiator rbd-initiator connect -a $target_addr -n "$nqn"
	for bs in 4k 128k; do
		step "$bs"
		verify_nbd 1 --rw=randrw --bs=$bs --iodepth=16 --size=4M
	done
}
