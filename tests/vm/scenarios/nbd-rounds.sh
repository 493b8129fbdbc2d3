# Devices are attached and detached two hundred times, two at a time, which leaves
# nothing behind.
# host: rbd-initiator
# target: rbd-target
# timeout: 12m
. "$(dirname "$0")/lib/common.sh"
nbd_setup
rbd_target -e "ram:32M,nqn=$nqn:a" -e "ram:32M,nqn=$nqn:b"
mkdir "$work/run"

# round DISK NUMBER
round() {
	local name=$nqn:$1 out=$work/round-$1.out err=$work/round-$1.err connected d
	rm -f "$out"
	RUNTIME_DIRECTORY=$work/run rbd-initiator connect -a $rbd_addr -n "$name" --nbd-device auto -i 2 >"$out" 2>"$err" &
	connected=$!
	eventually 60 eval "[ -s '$out' ] || ! kill -0 $connected"
	d=$(cut -f 1 "$out")
	[ -b "$d" ] || fail "round $2 of $1: no device: $(cat "$err")"
	dd if="$d" of=/dev/null bs=64k count=1 iflag=direct status=none
	case $(($2 % 3)) in
	0) kill -TERM $connected ;;
	1) RUNTIME_DIRECTORY=$work/run rbd-initiator disconnect -d "$d" ;;
	2) RUNTIME_DIRECTORY=$work/run rbd-initiator disconnect -n "$name" --force ;;
	esac
	wait $connected || fail "round $2 of $1: status $?: $(cat "$err")"
}
rounds() {
	local i
	for ((i = 0; i < 100; i++)); do
		round "$1" $i
		[ $((i % 25)) -ne 24 ] || step "$((i + 1)) rounds of $1"
	done
}
begin=$SECONDS
rounds a &
a=$!
rounds b &
wait $! || fail "the rounds of b"
wait $a || fail "the rounds of a"
echo "200 rounds in $((SECONDS - begin)) s"
equal "$(find "$work/run" -type f -o -type s | wc -l)" 0 "the number of files left behind"
equal "$(find /sys/block -maxdepth 1 -name 'nbd*' -exec test -e {}/pid ';' -print | wc -l)" 0 "the number of devices left behind"
stop target
no_nbd_trouble
