# The network and the RDMA devices of a scenario.
# shellcheck shell=bash

# The kernel's side of the wire, and the side of our programs.
kernel_addr=10.99.0.1
rbd_addr=10.99.0.2

# By what our programs are reached, if the runner does not say so.
: "${FABRIC:=iwarp}"
scheme=iwarp

# pair [siw|rxe]: a wire (veth, MTU 1500) between the root namespace, where the
# kernel's RDMA device is, and the network namespace rbd, where our programs run. If
# they are to be reached by the kernel's device, they run in the root namespace too.
pair() {
	local kind=${1:-siw}
	if [ $# -eq 0 ] && [ "$FABRIC" != iwarp ]; then
		kind=$FABRIC
		scheme=rdma rbd_addr=$kernel_addr where=(env)
	fi
	wire
	rdma_device "$kind" wire
}

# wire: what pair makes, without an RDMA device.
wire() {
	modprobe veth
	ip netns add rbd
	defer ip netns del rbd
	ip link add wire type veth peer name wire netns rbd
	defer ip link del wire
	ip addr add $kernel_addr/24 dev wire
	ip link set wire up
	ip -n rbd link set lo up
	ip -n rbd addr add $rbd_addr/24 dev wire
	ip -n rbd link set wire up
}

# rdma_device KIND INTERFACE
rdma_device() {
	local module=$1
	[ "$1" != rxe ] || module=rdma_rxe
	modprobe -a rdma_ucm "$module"
	rdma link add "$1"0 type "$1" netdev "$2"
	defer rdma link del "$1"0
}

# in_rbd COMMAND...: runs it at the other end of the wire.
in_rbd() { ip netns exec rbd "$@"; }

# lossy INTERFACE COMMAND...: from now on, one packet of a hundred that the interface
# sends is lost, and one of four overtakes others. COMMAND runs in its namespace.
lossy() {
	local dev=$1
	shift
	"$@" ip link set "$dev" gso_max_segs 1 # packets, not bundles of them, are lost
	"$@" tc qdisc add dev "$dev" root netem delay 1ms reorder 75% 50% loss 1%
}

# lossy_wire: both directions of the wire of pair.
lossy_wire() {
	modprobe sch_netem
	lossy wire
	lossy wire in_rbd
}
clean_wire() {
	tc qdisc del dev wire root
	in_rbd tc qdisc del dev wire root
}

# something_was_lost [COMMAND...]: fails unless TCP sent segments again, as the
# namespace in which COMMAND runs counts them.
something_was_lost() {
	local n
	n=$("${@:-in_rbd}" awk '/^Tcp:/ && $2 ~ /[0-9]/ { print $13 }' /proc/net/snmp)
	echo "TCP sent $n segments again"
	[ "$n" -gt 0 ] || fail "nothing was lost"
}
