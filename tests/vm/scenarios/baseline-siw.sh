# The kernel with itself over siw: the yardstick for all others.
#
# host: Linux nvme-rdma (siw)
# target: Linux nvmet-rdma (siw)
# short: yes
. "$(dirname "$0")/lib/common.sh"
pair siw
. "$lib/baseline.sh"
