# The target comes back with fewer queues, then with more: the host takes what there is.
#
# host: Linux nvme-rdma (siw)
# target: package target
# fabrics: rxe siw
. "$(dirname "$0")/lib/common.sh"
pair
truncate -s 16M "$work/disk.img"
vm_target 2 file "$nqn" 1 "$work/disk.img"
connect $rbd_addr "$nqn" -i 2 --reconnect-delay=1 --ctrl-loss-tmo=60
d=$(disk "$nqn" 1)
has_queues() { is_live "$nqn" && [ "$(cat "/sys/class/nvme/$(controller "$nqn")/queue_count")" = $(($1 + 1)) ]; }
has_queues 2
verify_io "$d" --rw=randrw --bs=4k --iodepth=8 --size=8M --loops=3 &
load=$!
for queues in 1 2; do
	step "the target comes back with $queues queues"
	sleep 1
	stop target
	vm_target $queues file "$nqn" 1 "$work/disk.img"
	eventually 30 has_queues $queues
done
wait $load || fail "fio failed"
nvme disconnect -n "$nqn"
stop target
