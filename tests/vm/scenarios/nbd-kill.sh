# The initiator is killed again and again below a mounted file system under load: the
# next process takes the device over, nothing is lost, and no I/O fails.
# host: rbd-initiator
# target: rbd-target
# timeout: 6m
. "$(dirname "$0")/lib/common.sh"
nbd_setup
truncate -s 512M "$work/disk"
rbd_target -e "$work/disk,nqn=$nqn"
attach initiator -n "$nqn" --nbd-device auto --nbd-timeout 4
d=${dev[initiator]}
mkfs.ext4 -q "$d"
mkdir -p /mnt/a
mount "$d" /mnt/a
defer eval "! mountpoint -q /mnt/a || umount /mnt/a"
load load /mnt/a/file --rw=randwrite --bs=4k --iodepth=32

for i in 1 2 3 4 5 6 7 8 9 10; do
	step "kill $i"
	progress "$d"
	sleep 1
	kill -KILL "${pid[initiator]}"
	wait "${pid[initiator]}" || true
	initiator list >"$work/list"
	grep -q "^$d .* left behind .*$nqn" "$work/list" || fail "the device is not listed as left behind: $(cat "$work/list")"
	attach initiator -n "$nqn" --nbd-device auto --nbd-timeout 4
	equal "${dev[initiator]}" "$d" "the device after kill $i"
	progress "$d"
	still_loaded load
done
step "the second start is told of the first"
refused "is connected already: $d, process ${pid[initiator]}" initiator connect -a $rbd_addr -n "$nqn" --nbd-device auto
equal "$(initiator connect -a $rbd_addr -n "$nqn" --nbd-device auto --idempotent)" "$(cat "$work/initiator.out")" "the line of the second start"
step "the load ends"
load_done load
umount /mnt/a
fsck.ext4 -fn "$d" >/dev/null

step "a device left behind is cleaned"
kill -KILL "${pid[initiator]}"
wait "${pid[initiator]}" || true
exec {held}<"$d"
refused "is open in process $$" initiator disconnect -d "$d"
exec {held}<&-
initiator disconnect -d "$d"
[ ! -e "/sys/block/${d#/dev/}/pid" ] || fail "the device is still connected"
equal "$(initiator list -o json)" "[]" "the list"
stop target
no_nbd_trouble
