# The kernel's host with our target over rdma:// on Soft-RoCE: I/O, a file system, a reset.
#
# host: Linux nvme-rdma (rxe)
# target: rbd-target (rdma:// on rxe)
. "$(dirname "$0")/lib/common.sh"
. "$lib/ibv.sh"
ibv_host rxe
