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

step "killed while the kernel looks for partitions: the others do not wait for that"
attach initiator -n "$nqn" --nbd-device auto --nbd-timeout 30
d=${dev[initiator]}
exec {held}<"$d"
kill -STOP "${pid[target]}"
blockdev --rereadpt "$d" & # nobody can open the device as long as this waits
looking=$!
eventually 10 eval "awk '{ exit !\$9 }' /sys/block/${d#/dev/}/stat" # its read
kill -KILL "${pid[initiator]}"
wait "${pid[initiator]}" || true
kill -CONT "${pid[target]}"
while kill -0 $looking 2>/dev/null; do
	dd iflag=direct bs=4096 skip=1 count=1 status=none <&$held >/dev/null && echo $SECONDS
	sleep 0.5
done >"$work/reads" &
reading=$!
began=$SECONDS
PATIENCE=$((4 * ${PATIENCE:-1})) attach initiator -n "$nqn" --nbd-device auto --nbd-timeout 30
equal "${dev[initiator]}" "$d" "the device that was taken over"
wait $looking || fail "the kernel has not found partitions or none"
echo "that took $((SECONDS - began)) s"
wait $reading
exec {held}<&-
gap=$(awk -v last=$began '{ if ($1 - last > gap) gap = $1 - last; last = $1 } END { print gap + 0 }' "$work/reads")
echo "$(wc -l <"$work/reads") reads meanwhile, at most $gap s between two"
[ "$(wc -l <"$work/reads")" -gt 2 ] && [ "$gap" -lt $((12 * ${PATIENCE:-1})) ] || fail "reads had to wait"
stop initiator
stop target
no_nbd_trouble
