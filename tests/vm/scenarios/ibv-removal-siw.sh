# The RDMA device (Soft-iWARP) is removed under load and comes back: nothing hangs, the target serves again, the disk goes on.
#
# host: rbd-initiator (rdma:// on siw)
# target: rbd-target (rdma:// on siw)
. "$(dirname "$0")/lib/common.sh"
. "$lib/ibv.sh"
ibv_removal siw
