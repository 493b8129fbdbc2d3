# Our programs with each other over rdma:// on Soft-iWARP.
#
# host: rbd-initiator (rdma:// on siw)
# target: rbd-target (rdma:// on siw)
. "$(dirname "$0")/lib/common.sh"
. "$lib/ibv.sh"
ibv_pair siw
