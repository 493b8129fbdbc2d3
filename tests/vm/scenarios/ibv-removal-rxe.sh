# The RDMA device (Soft-RoCE) is removed under load and comes back: nothing hangs, the target serves again, the disk goes on.
#
# host: rbd-initiator (rdma:// on rxe)
# target: rbd-target (rdma:// on rxe)
. "$(dirname "$0")/lib/common.sh"
. "$lib/ibv.sh"
ibv_removal rxe
