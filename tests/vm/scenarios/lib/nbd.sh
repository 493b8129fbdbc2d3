# The kernel's block device /dev/nbdN, which rbd-initiator attaches. Its netlink
# family is in the first network namespace alone, so that the initiator runs there,
# and our target in the namespace rbd.
# shellcheck shell=bash

# nbd_setup: the module, udev with our rule, and the wire to the namespace rbd.
nbd_setup() {
	wire
	# Not "ip netns exec", which copies the mounts that there are.
	where=(nsenter --net=/run/netns/rbd)
	modprobe nbd
	mkdir -p /run/udev/rules.d
	cp /vm/packaging/60-rbd.rules /run/udev/rules.d/
	if ! pidof systemd-udevd >/dev/null; then
		/lib/systemd/systemd-udevd --daemon 2>"$work/udev.err"
	fi
	udevadm control --reload
}

# attach NAME ARG...: rbd-initiator with a kernel device, which is ${dev[NAME]}.
declare -A dev
attach() {
	local name=$1 where=(env)
	shift
	start "$name" rbd-initiator connect -a $rbd_addr -i 4 -v "$@"
	dev[$name]=$(head -n 1 "$work/$name.out" | cut -f 1)
	[[ ${dev[$name]} == /dev/nbd* ]] || fail "$name attached no device: $(cat "$work/$name.err")"
}

# sysfs DEVICE FILE: what the kernel says of a device.
sysfs() { cat "/sys/block/${1#/dev/}/$2"; }

# initiator ARG...: a command of rbd-initiator that is soon done.
initiator() { RUNTIME_DIRECTORY=$work timeout $((100 * ${PATIENCE:-1})) rbd-initiator "$@"; }

# no_nbd_trouble [errors]: no task waits for ever, and the kernel has seen no answer
# that it did not expect, and no I/O error unless there were to be some.
no_nbd_trouble() {
	local stuck
	stuck=$(awk '$3 == "D" { print $2 }' /proc/[0-9]*/stat 2>/dev/null || true)
	[ -z "$stuck" ] || { sleep 2; stuck=$(awk '$3 == "D" { print $2 }' /proc/[0-9]*/stat 2>/dev/null || true); }
	[ -z "$stuck" ] || fail "tasks in state D: $stuck"
	if own_dmesg | grep -E 'Double reply|Unexpected reply|Wrong magic|Raced with timeout'; then
		fail "trouble in the kernel's log"
	fi
	[ "${1:-}" = errors ] || ! own_dmesg | grep -E "I/O error,? dev nbd" || fail "I/O errors in the kernel's log"
}

# load NAME DISK OPTION...: fio writes, reads back and compares, again and again, in the
# background, until load_done NAME.
load() {
	local name=$1 disk=$2
	shift 2
	rm -f "$work/$name.stop"
	while [ ! -e "$work/$name.stop" ]; do
		# shellcheck disable=SC2046 # there may be none
		fio --name="$name" --filename="$disk" $(no_new_disk "$disk") --ioengine=libaio --direct=1 --verify=crc32c --verify_fatal=1 --verify_state_save=0 \
			--do_verify=1 --size=16M "$@" >"$work/$name.fio" 2>&1 || exit 1
		echo round >>"$work/$name.rounds"
	done &
	pid[$name]=$!
	defer kill_program "$name"
}
still_loaded() { kill -0 "${pid[$1]}" 2>/dev/null || { cat "$work/$1.fio"; fail "fio has failed"; }; }
load_done() {
	: >"$work/$1.stop"
	wait "${pid[$1]}" || { cat "$work/$1.fio"; fail "fio has failed"; }
	echo "$(wc -l <"$work/$1.rounds") rounds of fio"
}
