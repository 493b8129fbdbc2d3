# The target goes away under load, without reconnecting: every request ends in bounded time, and the initiator says why.
#
# host: rbd-initiator
# target: Linux nvmet-rdma (siw)
# fabrics: rxe siw
. "$(dirname "$0")/lib/common.sh"
pair
truncate -s 32M "$work/disk"
kernel_target $kernel_addr
kernel_subsystem "$nqn"
kernel_namespace "$nqn" 1 "$work/disk"
ways=("the port is closed")
[ $FABRIC != iwarp ] || ways+=("the wire is cut") # else both are at the same end of it
for how in "${ways[@]}"; do
	step "$how"
	rbd_connect -n "$nqn" -k 3 -l 0
	fio --name=load --ioengine=nbd --uri="$(uri 1)" --rw=randrw --bs=4k --iodepth=16 --size=32M --time_based --runtime=60 >"$work/fio.out" 2>&1 &
	load=$!
	sleep 2
	kill -0 $load || { cat "$work/fio.out"; fail "fio ended early"; }
	if [ "$how" = "the wire is cut" ]; then ip link set wire down; else rm "$nvmet/ports/1/subsystems/$nqn"; fi
	eventually 30 gone $load
	! wait $load || fail "fio did not notice"
	eventually 30 gone "${pid[initiator]}"
	! wait "${pid[initiator]}" || fail "the initiator ended with status 0"
	tail -n 1 "$work/initiator.err"
	grep -q "$kernel_addr" "$work/initiator.err" || fail "the message does not name the target"
	if [ "$how" = "the wire is cut" ]; then ip link set wire up; else ln -s "$nvmet/subsystems/$nqn" $nvmet/ports/1/subsystems/; fi
done
step "and it connects again"
rbd_connect -n "$nqn"
verify_nbd 1 --rw=randrw --bs=4k --iodepth=16 --size=1M
stop initiator
