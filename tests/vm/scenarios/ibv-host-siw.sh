# The kernel's host with our target over rdma:// on Soft-iWARP: I/O, a file system, a reset.
#
# host: Linux nvme-rdma (siw)
# target: rbd-target (rdma:// on siw)
. "$(dirname "$0")/lib/common.sh"
. "$lib/ibv.sh"
ibv_host siw
