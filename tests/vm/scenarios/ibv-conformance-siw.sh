# Our provider for RDMA devices passes the whole conformance suite on Soft-iWARP.
#
# host: verbs/ibv (siw)
# target: verbs/ibv (siw)
# timeout: 20m
. "$(dirname "$0")/lib/common.sh"
. "$lib/ibv.sh"
conformance siw
