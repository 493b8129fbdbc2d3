# 200 connections one after the other leave nothing behind in the target.
#
# host: Linux nvme-rdma (siw)
# target: rbd-target
# timeout: 240s
. "$(dirname "$0")/lib/common.sh"
pair
rbd_target -e "ram:16M,nqn=$nqn"
cycle() { # what nvme connect and nvme disconnect do, without starting them
	echo "transport=rdma,traddr=$rbd_addr,trsvcid=4420,nqn=$nqn,hostnqn=$hostnqn,hostid=$hostid,nr_io_queues=1,queue_size=32" >/dev/nvme-fabrics
	echo 1 >"/sys/class/nvme/$(controller "$nqn")/delete_controller"
}
rss() { awk '/^VmRSS/ { print $2 }' "/proc/${pid[target]}/status"; }
fds() { ls "/proc/${pid[target]}/fd" | wc -l; }

step "twenty to warm up"
for _ in $(seq 20); do cycle; done
sleep 0.5
rss0=$(rss) fds0=$(fds)
step "200 more; now $rss0 KiB, $fds0 file descriptors"
for _ in $(seq 200); do cycle; done
sleep 0.5
step "now $(rss) KiB, $(fds) file descriptors"
[ "$(fds)" -le "$fds0" ] || fail "file descriptors: $fds0, then $(fds)"
[ "$(rss)" -le $((rss0 + 8192)) ] || fail "memory: $rss0 KiB, then $(rss) KiB"
step "goroutines, as SIGQUIT tells them"
kill -QUIT "${pid[target]}"
eventually 10 gone "${pid[target]}"
n=$(grep -c '^goroutine ' "$work/target.err")
echo "$n goroutines"
[ "$n" -lt 40 ] || fail "$n goroutines after all connections have ended"
: >"$work/target.err"
