# The network and the RDMA devices of a scenario.
# shellcheck shell=bash

# The kernel's side of the wire, and the side of our programs.
kernel_addr=10.99.0.1
rbd_addr=10.99.0.2

# pair [siw|rxe]: a wire (veth, MTU 1500) between the root namespace, where the
# kernel's RDMA device is, and the network namespace rbd, where our programs run.
pair() {
	local kind=${1:-siw}
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
	rdma_device "$kind" wire
}

# rdma_device KIND INTERFACE
rdma_device() {
	local module=$1
	[ "$1" != rxe ] || module=rdma_rxe
	modprobe -a rdma_ucm "$module"
	rdma link add "$1"0 type "$1" netdev "$2"
	defer rdma link del "$1"0
}

# in_rbd COMMAND...: runs it in the namespace of our programs.
in_rbd() { ip netns exec rbd "$@"; }
