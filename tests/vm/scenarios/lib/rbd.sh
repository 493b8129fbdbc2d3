# Our programs.
# shellcheck shell=bash

# where our programs run: at the other end of the wire, if pair does not say otherwise.
where=(ip netns exec rbd)

# start NAME COMMAND...: runs a program in the background, with its output in
# $work/NAME.out and .err, and waits for its first line. Its process is ${pid[NAME]}.
# The command is run as such, not by a function, so that the process is the program.
declare -A pid
start() {
	local name=$1
	shift
	: >"$work/$name.out"
	RUNTIME_DIRECTORY=$work "${where[@]}" "$@" <"${stdin:-/dev/null}" >"$work/$name.out" 2>>"$work/$name.err" &
	pid[$name]=$!
	defer kill_program "$name"
	eventually 20 started "$name"
}
started() { [ -s "$work/$1.out" ] || gone "${pid[$1]}"; }
kill_program() { ! kill -0 "${pid[$1]}" 2>/dev/null || { kill -KILL "${pid[$1]}"; wait "${pid[$1]}" 2>/dev/null || true; }; }

# stop NAME: asks the program to end, which it must do cleanly and soon.
stop() {
	local status=0
	kill -TERM "${pid[$1]}"
	eventually 20 gone "${pid[$1]}"
	wait "${pid[$1]}" || status=$?
	[ $status -eq 0 ] || fail "$1 ended with status $status"
}
gone() { [ ! -e "/proc/$1" ] || [ "$(awk '{ print $3 }' "/proc/$1/stat")" = Z ]; }

# rbd_target ARG...: our target on its usual address, open to any host.
rbd_target() {
	start target rbd-target serve -l $scheme://$rbd_addr:4420 --allow-any-host "$@"
	grep -q '^listening' "$work/target.out" || fail "the target did not start"
	target_is_ready
}

# target_is_ready: the first connection on an RDMA device has to wait until the target
# has registered its buffers, which takes long on an emulated processor.
target_is_ready() {
	[ $scheme = iwarp ] || eventually 40 rbd-initiator discover -a "rdma://$rbd_addr"
}

# vm_target QUEUES [COMMAND...]: a target that does what it is told by tell; the first
# command is done before a host can connect (tests/vm/cmd/vmtarget).
vm_target() {
	rm -f "$work/commands"
	mkfifo "$work/commands"
	exec {commands}<>"$work/commands"
	stdin=$work/commands start target vmtarget $scheme://$rbd_addr:4420 "$@"
	target_is_ready
}

# tell COMMAND...: has vmtarget do it, and prints the result.
tell() {
	local before
	before=$(wc -l <"$work/target.out")
	echo "$*" >&"$commands"
	eventually 20 eval "[ \$(wc -l <'$work/target.out') -gt $before ]"
	tail -n 1 "$work/target.out" | grep -q ^ok || fail "$*: $(tail -n 1 "$work/target.out")"
	tail -n 1 "$work/target.out" | cut -d' ' -f 2
}

# rbd_connect ARG...: our initiator, connected to the kernel's target.
rbd_connect() {
	start initiator rbd-initiator connect -a $scheme://$kernel_addr "$@"
	grep -q '^nbd' "$work/initiator.out" || fail "the initiator did not start"
}

# uri NSID: the NBD address of a namespace.
uri() { awk -F'\t' -v n="$1" '$5 == n { print $1 }' "$work/initiator.out" | grep .; }

# verify_nbd NSID OPTION...: fio writes through the NBD socket, reads back and compares.
verify_nbd() {
	local uri
	uri=$(uri "$1")
	shift
	fio --name=verify --ioengine=nbd --uri="$uri" --verify=crc32c --verify_fatal=1 --verify_state_save=0 --do_verify=1 "$@" \
		>"$work/fio.out" 2>"$work/fio.err" || {
		cat "$work/fio.out" "$work/fio.err"
		fail "fio $uri $*"
	}
}
