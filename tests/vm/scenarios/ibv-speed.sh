# The kernel's host on Soft-RoCE is served by our target at 0.7 times the rate of the kernel's target, or faster.
#
# host: Linux nvme-rdma (rxe)
# target: rbd-target (rdma:// on rxe), Linux nvmet-rdma (rxe)
# timeout: 8m
. "$(dirname "$0")/lib/common.sh"
. "$lib/ibv.sh"
pair rxe
modprobe brd rd_nr=1 rd_size=131072
defer rmmod brd
kernel_target $kernel_addr
kernel_subsystem "$nqn"
ns=$nvmet/subsystems/$nqn/namespaces/1
mkdir "$ns"
defer rmdir "$ns"
echo -n /dev/ram0 >"$ns/device_path"
echo 1 >"$ns/enable"
defer eval "echo 0 >$ns/enable"
where=(env)
start target rbd-target serve -l rdma://$kernel_addr:4421 --allow-any-host -e "ram:128M,nqn=$nqn-ours"
connect $kernel_addr "$nqn" -i 2
defer nvme disconnect -n "$nqn-ours"
nvme connect -t rdma -a $kernel_addr -s 4421 -n "$nqn-ours" --hostnqn="$hostnqn" --hostid="$hostid" -i 2
theirs=$(disk "$nqn" 1)
ours=$(disk "$nqn-ours" 1)
for d in $theirs $ours; do dd if=/dev/zero of="$d" bs=1M count=128 oflag=direct status=none; done

# rate DISK OPTION...: requests a second.
rate() {
	local d=$1
	shift
	fio --name=speed --filename="$d" --allow_file_create=0 --ioengine=libaio --direct=1 --time_based --runtime=4 --ramp_time=1 --output-format=json "$@" |
		jq '.jobs[0] | .read.iops + .write.iops | floor'
}

# compare NAME OPTION...: five rounds, the two targets in turn; the medians and their ratio.
compare() {
	local name=$1 a b
	shift
	: >"$work/theirs"
	: >"$work/ours"
	for _ in 1 2 3 4 5; do
		rate "$theirs" "$@" >>"$work/theirs"
		rate "$ours" "$@" >>"$work/ours"
	done
	a=$(sort -n "$work/theirs" | sed -n 3p)
	b=$(sort -n "$work/ours" | sed -n 3p)
	printf '%-22s nvmet-rdma %6d/s (%s)  rbd-target %6d/s (%s)  ratio %s\n' "$name" "$a" "$(sort -n "$work/theirs" | paste -sd ' ')" "$b" \
		"$(sort -n "$work/ours" | paste -sd ' ')" "$(jq -n "$b / $a * 100 | floor / 100")"
	[ $((b * 10)) -ge $((a * 7)) ] || slow+=("$name")
}
slow=()
compare "randread 4k depth 16" --rw=randread --bs=4k --iodepth=16
compare "read 128k depth 8" --rw=read --bs=128k --iodepth=8
compare "write 128k depth 8" --rw=write --bs=128k --iodepth=8
stop target
[ ${#slow[@]} -eq 0 ] || fail "less than 0.7 times the rate: ${slow[*]}"
