# Booted by systemd, with the shipped units, udev rule and examples: a disk whose target
# has its address late is mounted at boot, and goes at shutdown after its file system,
# which is clean then. So are file systems mounted by hand, even one that is taken for
# local and in use to the very end. A disk that is away at boot is mounted when it comes,
# and one in use is not stopped.
# host: rbd-initiator
# target: rbd-target
# boot: boot-systemd.d
# timeout: 8m
. "$(dirname "$0")/lib/common.sh"
link() { echo "/dev/disk/by-id/rbd-nqn.2026-11.io.rbd:$1.img-1"; }

# since UNIT EVENT: when that was, in microseconds since the boot.
since() { systemctl show -P "$2TimestampMonotonic" "$1"; }

# in_order A B...: the units became active one after the other.
in_order() {
	local last=0 now unit
	for unit; do
		now=$(since "$unit" ActiveEnter)
		echo "$unit is active since $now us"
		[ "$now" -gt 0 ] || fail "$unit has not become active"
		[ "$now" -ge "$last" ] || fail "$unit was active before the one that it has to wait for"
		last=$now
	done
}

step "wait for the end of the boot"
eventually 240 systemctl is-active --quiet multi-user.target
equal "$(systemctl --no-pager --plain --no-legend list-units --state=failed)" "" "what has failed"

step "the target was started again and again until it had its address"
[ "$(systemctl show -P NRestarts rbd-target)" -gt 5 ] || fail "the target was not late"

step "the initiator has waited for it, the file system for the initiator, sessions for the file system"
journalctl -qb --no-pager -o short-monotonic -u rbd-initiator@disk
equal "$(systemctl show -P NRestarts rbd-initiator@disk)" 0 "how often the initiator was started again"
journalctl -qb -u rbd-initiator@disk -g "can't be reached yet" >/dev/null || fail "the initiator did not wait"
in_order rbd-initiator@disk remote-fs-pre.target mnt-disk.mount remote-fs.target writer.service
equal "$(findmnt -no SOURCE /mnt/disk)" "$(readlink -f "$(link disk)")" "what is mounted"

step "a disk that is away has not held up the boot"
[ "$(systemctl show -P ActiveState rbd-initiator@late)" = activating ] || fail "$(systemctl status rbd-initiator@late)"
! mountpoint -q /mnt/late || fail "it is mounted"

if [ "$PHASE" = 1 ]; then
	step "it comes later than mounts wait for disks, and is mounted"
	until [ "$(cut -d . -f 1 /proc/uptime)" -gt 110 ]; do sleep 1; done
	systemctl start late-target
	eventually 60 mountpoint -q /mnt/late
	eventually 60 eval 'systemctl is-system-running | grep -qx running'
	echo here >/mnt/late/data

	step "files that nobody has synced, also on disks that are mounted by hand"
	mount -o _netdev "$(link hand)" /mnt/hand
	mount "$(link held)" /mnt/held
	head -c 4M /dev/urandom >/mnt/hand/data
	md5sum </mnt/hand/data >/srv/sum
	cp /mnt/hand/data /mnt/held/
	cp /mnt/hand/data /mnt/disk/
	# A process that is not ended before the very end.
	systemd-run --quiet --unit=holder -p DefaultDependencies=no sh -c 'cd /mnt/held && exec sleep infinity'
	systemctl is-active holder writer
	exit
fi

step "the first boot has left clean file systems"
for name in disk hand held late; do
	grep -qx 'found sound' "/run/found.$name" || fail "$(cat "/run/found.$name")"
	grep -E '^Filesystem (features|state)' "/run/found.$name"
	grep -qE '^Filesystem state: +clean$' "/run/found.$name" || fail "$name was not clean"
	! grep -qE '^Filesystem features:.* needs_recovery' "/run/found.$name" || fail "$name was not unmounted"
done
! dmesg | grep -E 'EXT4-fs \(nbd.*recovery' || fail "a journal was recovered"

step "with all that was written"
for name in disk hand held; do
	mountpoint -q "/mnt/$name" || mount "$(link $name)" "/mnt/$name"
	equal "$(md5sum <"/mnt/$name/data")" "$(cat /srv/sum)" "the file on $name"
done
umount /mnt/hand

step "a disk in use is not stopped"
unit=rbd-initiator@held process=$(systemctl show -P MainPID rbd-initiator@held)
systemctl stop $unit
equal "$(systemctl is-failed $unit)" failed "the state of the unit"
journalctl -qb -u $unit -g "is mounted on /mnt/held" >/dev/null || fail "nobody has said why"
kill -0 "$process"
dd if=/dev/urandom of=/mnt/held/more bs=1M count=4 oflag=direct conv=fsync status=none
# To start it again is to wait until the other one has ended.
systemctl start --no-block $unit
umount /mnt/held
eventually 30 eval "! kill -0 $process 2>/dev/null"
eventually 60 systemctl is-active --quiet $unit
mount -o _netdev "$(link held)" /mnt/held
equal "$(stat -c %s /mnt/held/more)" $((4 << 20)) "the size of what was written meanwhile"
umount /mnt/held
n=$(($(wc -l </mnt/disk/lines) - 1))
[ $n -gt 20 ] || fail "only $n lines were written"
cmp /mnt/disk/lines <(seq -f 'line %.0f' $n; echo "end $n")

step "the order of the shutdown"
grep -aE 'systemd\[1\]: .*(writer|mnt-|rbd-)|detached|Power down' /vm/console.1
# comes TEXT: its line in what the first boot wrote.
comes() { grep -anm1 -- "$1" /vm/console.1 | cut -d: -f1 | grep . || fail "the console has no: $1"; }
# one_after_the_other TEXT...: the lines came in this order.
one_after_the_other() {
	local last=0 text line
	for text; do
		line=$(comes "systemd\\[1\\]: $text")
		[ "$line" -gt $last ] || fail "$text came too early"
		last=$line
	done
}
one_after_the_other 'Stopped writer.service' 'Unmounted mnt-disk.mount' 'Stopping rbd-initiator@disk' 'Stopped rbd-initiator@disk' 'Stopping rbd-target'
one_after_the_other 'Unmounted mnt-hand.mount' 'Stopping rbd-initiator@hand' 'Stopped rbd-initiator@hand'
comes 'Failed unmounting mnt-held' # by systemd: the process that holds it is still there
! grep -aE 'rbd-initiator@(disk|hand).*timed out|I/O error|EXT4-fs error' /vm/console.1 || fail "see above"
