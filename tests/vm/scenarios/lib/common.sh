# Sourced by every scenario: steps, checks, and undoing at the end. A scenario is
# over at the first command that fails.
# shellcheck shell=bash
set -Eeuo pipefail
lib=$(dirname "${BASH_SOURCE[0]}")
work=$(mktemp -d /tmp/scenario.XXXXXX) # gone with the machine
undo=()

# own_dmesg: what the kernel has logged since this scenario began; the machine is not its
# own.
begun=$(cut -d' ' -f1 /proc/uptime)
own_dmesg() { dmesg | awk -F'[][ ]+' -v begun="$begun" '$2 + 0 >= begun'; }

step() { printf '[%s] %s\n' "$(cut -d' ' -f1 /proc/uptime)" "$*"; }
fail() { echo "FAILED: $*" >&2; exit 1; }

# defer COMMAND...: runs the command at the end; the last one is run first.
defer() { undo+=("$(printf '%q ' "$@")"); }

on_error() { echo "FAILED: line $2 of $1: $3"; }
trap 'on_error "${BASH_SOURCE[0]##*/}" "$LINENO" "$BASH_COMMAND"' ERR

on_exit() {
	local status=$? i
	trap - ERR
	set +e
	if [ $status -ne 0 ]; then
		[ ! -d "/vm/meet/$SCENARIO" ] || : >"/vm/meet/$SCENARIO/failed"
		for i in "$work"/*.err; do
			[ -s "$i" ] || continue
			echo "--- the end of ${i##*/}:"
			tail -n 40 "$i"
		done
	fi
	step "undoing"
	for ((i = ${#undo[@]} - 1; i >= 0; i--)); do eval "${undo[i]}" >"$work/undo.out" 2>&1 || { echo "undo: ${undo[i]}:"; cat "$work/undo.out"; }; done
	exit $status
}
trap on_exit EXIT
trap 'exit 143' TERM

# eventually SECONDS COMMAND...: repeats the command until it succeeds. The time is
# longer where the runner is told to be patient.
eventually() {
	local end=$((SECONDS + $1 * ${PATIENCE:-1}))
	shift
	until "$@" >/dev/null 2>&1; do
		[ $SECONDS -lt $end ] || fail "it does not come to this: $*"
		sleep 0.1
	done
}

# refused TEXT COMMAND...: the command must fail, and say TEXT (a regular expression).
refused() {
	local text=$1 out=
	shift
	if out=$("$@" 2>&1); then fail "was not refused: $*: ${out:0:300}"; fi
	grep -qE -- "$text" <<<"$out" || fail "$* was refused, but with: ${out:0:300}"
	out=$(head -n 1 <<<"$out")
	echo "refused as it should be: ${out:0:120}"
}

# equal GOT WANT WHAT
equal() { [ "$1" = "$2" ] || fail "$3 is $1, want $2"; }

# logged SECONDS FILE TEXT: waits until a program's log has the text.
logged() { eventually "$1" grep -qE -- "$3" "$2"; }

# no_new_disk DISK: the option by which fio does not create a file where there is no disk
# any more.
no_new_disk() { [[ $1 != /dev/* ]] || echo --allow_file_create=0; }

# verify_io DISK OPTION...: fio writes, reads back and compares. It may be a file, too.
verify_io() {
	local disk=$1
	shift
	# shellcheck disable=SC2046 # there may be none
	fio --name=verify --filename="$disk" $(no_new_disk "$disk") --ioengine=libaio --direct=1 --verify=crc32c --verify_fatal=1 --verify_state_save=0 \
		--do_verify=1 "$@" >"$work/fio.out" 2>"$work/fio.err" || {
		cat "$work/fio.out" "$work/fio.err"
		fail "fio $disk $*"
	}
}

# progress DEVICE: waits until I/O of the device is done that was not done before.
progress() {
	local before
	before=$(awk '{ print $1 + $5 }' "/sys/block/${1#/dev/}/stat")
	eventually 40 has_progressed "$1" "$before"
}
has_progressed() { [ "$(awk '{ print $1 + $5 }' "/sys/block/${1#/dev/}/stat")" -gt $(($2 + 32)) ]; }

# verify_until_enough DISK OPTION...: verify_io again and again, until there is a file
# enough in $work.
verify_until_enough() {
	until [ -e "$work/enough" ]; do verify_io "$@"; done
}

# shellcheck source=fabric.sh
. "$lib/fabric.sh"
# shellcheck source=host.sh
. "$lib/host.sh"
# shellcheck source=nvmet.sh
. "$lib/nvmet.sh"
# shellcheck source=rbd.sh
. "$lib/rbd.sh"
# shellcheck source=nbd.sh
. "$lib/nbd.sh"
# shellcheck source=two.sh
. "$lib/two.sh"
