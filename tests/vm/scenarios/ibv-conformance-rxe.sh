# Our provider for RDMA devices passes the whole conformance suite on Soft-RoCE.
#
# host: verbs/ibv (rxe)
# target: verbs/ibv (rxe)
# timeout: 20m
. "$(dirname "$0")/lib/common.sh"
. "$lib/ibv.sh"
conformance rxe
