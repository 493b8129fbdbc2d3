# The kernel with itself over rxe, which is RoCE: another fabric, the same commands.
#
# host: Linux nvme-rdma (rxe)
# target: Linux nvmet-rdma (rxe)
. "$(dirname "$0")/lib/common.sh"
pair rxe
. "$lib/baseline.sh"
