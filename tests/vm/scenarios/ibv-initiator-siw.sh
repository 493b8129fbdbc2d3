# Our initiator over rdma:// on Soft-iWARP with the kernel's target.
#
# host: rbd-initiator (rdma:// on siw)
# target: Linux nvmet-rdma (siw)
. "$(dirname "$0")/lib/common.sh"
. "$lib/ibv.sh"
ibv_initiator siw
