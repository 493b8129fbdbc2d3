# Devices are attached and detached two hundred times, which leaves nothing behind.
# host: rbd-initiator
# target: rbd-target
# timeout: 12m
. "$(dirname "$0")/lib/common.sh"
nbd_setup
rbd_target -e "ram:32M,nqn=$nqn"
mkdir "$work/run"

round() {
	rm -f "$work/round.out"
	RUNTIME_DIRECTORY=$work/run rbd-initiator connect -a $rbd_addr -n "$nqn" --nbd-device auto -i 2 >"$work/round.out" 2>"$work/round.err" &
	local connected=$! d
	eventually 60 eval "[ -s '$work/round.out' ] || ! kill -0 $connected"
	d=$(cut -f 1 "$work/round.out")
	[ -b "$d" ] || fail "round $1: no device: $(cat "$work/round.err")"
	dd if="$d" of=/dev/null bs=64k count=1 iflag=direct status=none
	case $(($1 % 3)) in
	0) kill -TERM $connected ;;
	1) RUNTIME_DIRECTORY=$work/run rbd-initiator disconnect -d "$d" ;;
	2) RUNTIME_DIRECTORY=$work/run rbd-initiator disconnect -n "$nqn" --force ;;
	esac
	wait $connected || fail "round $1: status $?: $(cat "$work/round.err")"
	[ ! -e "/sys/block/${d#/dev/}/pid" ] || fail "round $1: $d is still connected"
}
begin=$SECONDS
rounds=200
for ((i = 0; i < rounds; i++)); do
	round $i
	[ $((i % 50)) -ne 49 ] || step "$((i + 1)) rounds"
done
echo "$rounds rounds in $((SECONDS - begin)) s"
equal "$(find "$work/run" -type f -o -type s | wc -l)" 0 "the number of files left behind"
equal "$(find /sys/block -maxdepth 1 -name 'nbd*' -exec test -e {}/pid ';' -print | wc -l)" 0 "the number of devices left behind"
stop target
no_nbd_trouble
