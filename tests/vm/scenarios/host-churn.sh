# 200 connections, one after the other to each of five subsystems, leave nothing behind in the target.
#
# host: Linux nvme-rdma (siw)
# target: rbd-target
# fabrics: rxe siw
# timeout: 5m
. "$(dirname "$0")/lib/common.sh"
pair
exports=()
for i in 1 2 3 4 5; do exports+=(-e "ram:4M,nqn=nqn.2026-11.io.rbd:s$i"); done
rbd_target "${exports[@]}"

# cycles NUMBER NQN: does what nvme connect and nvme disconnect do, without starting them.
create() {
	echo "transport=rdma,traddr=$rbd_addr,trsvcid=4420,nqn=$1,hostnqn=$hostnqn,hostid=$hostid,nr_io_queues=1,queue_size=32" >/dev/nvme-fabrics
}
cycles() {
	for _ in $(seq "$1"); do
		# Where siw is the side that accepts, it can overlook what comes at once (see
		# docs/interop.md): the Connect command gets no answer then.
		create "$2" || { [ "$FABRIC" = siw ] && create "$2"; }
		echo 1 >"/sys/class/nvme/$(controller "$2")/delete_controller"
	done
}

# all NUMBER: to five subsystems at once, because the kernel waits most of the time
all() {
	local i p loops=()
	for i in 1 2 3 4 5; do
		cycles "$1" nqn.2026-11.io.rbd:s$i &
		loops+=($!)
	done
	for p in "${loops[@]}"; do wait "$p"; done
}
rss() { awk '/^VmRSS/ { print $2 }' "/proc/${pid[target]}/status"; }
fds() { ls "/proc/${pid[target]}/fd" | wc -l; }

step "twenty to warm up"
all 4
sleep 0.5
rss0=$(rss) fds0=$(fds)
step "180 more; now $rss0 KiB, $fds0 file descriptors"
all 36
sleep 0.5
step "now $(rss) KiB, $(fds) file descriptors"
[ "$(fds)" -le "$fds0" ] || fail "file descriptors: $fds0, then $(fds)"
[ "$(rss)" -le $((rss0 + 8192)) ] || fail "memory: $rss0 KiB, then $(rss) KiB"
n=$(grep -c 'host connected.*subsystem=nqn.2026-11.io.rbd:s' "$work/target.err")
[ "$FABRIC" = siw ] && [ "$n" -gt 200 ] && [ "$n" -le 210 ] || equal "$n" 200 "the number of connections" # where an I/O queue was not answered, one more
step "goroutines, as SIGQUIT tells them"
kill -QUIT "${pid[target]}"
eventually 10 gone "${pid[target]}"
n=$(grep -c '^goroutine ' "$work/target.err")
echo "$n goroutines"
[ "$n" -lt 40 ] || fail "$n goroutines after all connections have ended"
: >"$work/target.err"
