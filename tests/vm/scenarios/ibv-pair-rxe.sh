# Our programs with each other over rdma:// on Soft-RoCE.
#
# host: rbd-initiator (rdma:// on rxe)
# target: rbd-target (rdma:// on rxe)
. "$(dirname "$0")/lib/common.sh"
. "$lib/ibv.sh"
ibv_pair rxe
