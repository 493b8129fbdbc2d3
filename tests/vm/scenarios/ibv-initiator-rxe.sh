# Our initiator over rdma:// on Soft-RoCE with the kernel's target.
#
# host: rbd-initiator (rdma:// on rxe)
# target: Linux nvmet-rdma (rxe)
. "$(dirname "$0")/lib/common.sh"
. "$lib/ibv.sh"
ibv_initiator rxe
