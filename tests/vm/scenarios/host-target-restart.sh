# The target ends and starts again under load: the host reconnects and its data verifies.
#
# host: Linux nvme-rdma (siw)
# target: rbd-target
# fabrics: rxe siw
. "$(dirname "$0")/lib/common.sh"
pair
truncate -s 64M "$work/disk.img"
exports=(-e "$work/disk.img,nqn=$nqn")
rbd_target "${exports[@]}"
connect $rbd_addr "$nqn" -i 2 --reconnect-delay=1 --ctrl-loss-tmo=60
d=$(disk "$nqn" 1)

step "a load that runs through all of it"
verify_until_enough "$d" --rw=randrw --bs=4k --iodepth=16 --size=4M &
load=$!
for how in TERM KILL TERM; do
	sleep 2
	step "SIG$how"
	kill -$how "${pid[target]}"
	eventually 20 gone "${pid[target]}"
	wait "${pid[target]}" || true
	sleep 1
	rbd_target "${exports[@]}"
	eventually 30 is_live "$nqn"
done
touch "$work/enough"
wait $load || fail "fio failed"
nvme disconnect -n "$nqn"
stop target
