# Keep-alive: an idle connection stays; a target that is stopped, and a wire that is cut, are noticed on both sides.
#
# host: Linux nvme-rdma (siw)
# target: rbd-target
. "$(dirname "$0")/lib/common.sh"
pair
rbd_target -v -e "ram:16M,nqn=$nqn"
connect $rbd_addr "$nqn" -i 1 -k 2 --reconnect-delay=1 --ctrl-loss-tmo=60
d=$(disk "$nqn" 1)
c=$(controller "$nqn")
is_not_live() { ! is_live "$nqn"; }

step "idle for three times the keep-alive timeout"
before=$(recoveries)
sleep 6
is_live "$nqn" || fail "the controller is $(state "$nqn")"
equal "$(recoveries)" "$before" "the number of connections that were lost"
equal "$(controller "$nqn")" "$c" "the controller"

step "the target is stopped"
kill -STOP "${pid[target]}"
eventually 30 is_not_live
kill -CONT "${pid[target]}"
eventually 30 is_live "$nqn"
verify_io "$d" --rw=randrw --bs=4k --iodepth=8 --size=1M

step "the wire is cut: the target gives the controller up"
in_rbd ip link set wire down
logged 20 "$work/target.err" '[Kk]eep.?[Aa]live'
in_rbd ip link set wire up
eventually 40 is_live "$nqn"
verify_io "$d" --rw=randrw --bs=4k --iodepth=8 --size=1M

step "without keep-alive"
nvme disconnect -n "$nqn"
nvme connect -t rdma -a $rbd_addr -s 4420 -n "$nqn" --hostnqn="$hostnqn" --hostid="$hostid" -i 1 -k 0
disk "$nqn" 1
sleep 3
is_live "$nqn" || fail "the controller is $(state "$nqn")"
stop target
