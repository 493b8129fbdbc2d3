# RDMA WRITE between our programs over rxe has at least 0.9 of the bandwidth of ib_write_bw on the same device.
#
# host: rbd-initiator perf (rxe)
# target: rbd-target perf (rxe)
# timeout: 10m
. "$(dirname "$0")/lib/common.sh"
pair rxe
where=(env)
rounds=3

# theirs PROGRAM OPTION...: perftest's figure for the default size; the average of a
# bandwidth, the median of a latency.
theirs() {
	local column=4 server
	case $1 in *_lat) column=5 ;; esac
	local command=("$1" -d rxe0 -R -F -p 18516 "${@:2}")
	"${command[@]}" >"$work/perftest-server.err" 2>&1 &
	server=$!
	eventually 20 measured "${command[@]}"
	wait $server || fail "the server of $*"
	awk -v c=$column '$1 ~ /^[0-9]+$/ && NF >= 5 { print $c }' "$work/perftest.err" | grep .
}
measured() { "$@" $kernel_addr >"$work/perftest.err" 2>&1; }

# ours OP OPTION...: the same by our programs.
ours() {
	local column=4
	case $1 in *_lat) column=5 ;; esac
	rbd-initiator perf -a rdma://$kernel_addr --op "$@" | tail -n 1 | awk -v c=$column '{ print $c }' | grep .
}

# median of lines.
median() { sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }

start target rbd-target perf -l rdma://$kernel_addr --allow-any-host
grep -q '^listening rdma://' "$work/target.out" || fail "perf does not serve: $(cat "$work/target.err")"

step "bandwidth and latency, in turn"
for op in write_bw read_bw send_lat write_lat; do
	for ((i = 0; i < rounds; i++)); do
		theirs ib_$op -n 200 >>"$work/theirs-$op"
		ours $op -n 200 >>"$work/ours-$op"
		ours $op -n 200 --poll >>"$work/polled-$op"
	done
	a=$(median <"$work/ours-$op") b=$(median <"$work/theirs-$op") p=$(median <"$work/polled-$op")
	echo "$op: ours $a, with --poll $p, perftest $b: ratios $(awk "BEGIN { printf \"%.2f and %.2f\", $a / $b, $p / $b }")"
	if [ $op = write_bw ]; then
		awk "BEGIN { exit !($a >= 0.9 * $b) }" || fail "RDMA WRITE bandwidth is less than 0.9 of ib_write_bw's"
	fi
done

step "two settings"
rbd-initiator perf -a rdma://$kernel_addr --compare --tx-depth 4 --tx-depth 128 -n 100 --rounds 3

step "a peer that is gone"
stop target
refused "^rbd-initiator: write_bw with rdma://$kernel_addr:18515: " rbd-initiator perf -a rdma://$kernel_addr
