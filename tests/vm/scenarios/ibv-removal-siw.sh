# The RDMA device (Soft-iWARP) is removed under load and comes back: nothing hangs, and the target serves again.
#
# host: rbd-initiator (rdma:// on siw)
# target: rbd-target (rdma:// on siw)
. "$(dirname "$0")/lib/common.sh"
. "$lib/ibv.sh"
ibv_removal siw
