# SIGTERM does not end a device that is in use, and ends it when it is not any more; a
# forced detach ends in bounded time, with an error for what was not done, also when
# the target is away; nothing hangs.
# host: rbd-initiator
# target: rbd-target
. "$(dirname "$0")/lib/common.sh"
nbd_setup
truncate -s 256M "$work/disk"
rbd_target -e "$work/disk,nqn=$nqn"
attach initiator -n "$nqn" --nbd-device auto
d=${dev[initiator]}

step "SIGTERM while it is mounted"
mkfs.ext4 -q "$d"
mkdir -p /mnt/a
mount "$d" /mnt/a
defer eval "! mountpoint -q /mnt/a || umount -l /mnt/a"
kill -TERM "${pid[initiator]}"
logged 20 "$work/initiator.err" "is mounted on /mnt/a"
cp -r "$lib" /mnt/a/
sync -f /mnt/a/lib
umount /mnt/a
eventually 20 gone "${pid[initiator]}"
wait "${pid[initiator]}"
[ ! -e "/sys/block/${d#/dev/}/pid" ] || fail "the device is still connected"
ended=$(awk '$3 == "D" { print $2 }' /proc/[0-9]*/stat 2>/dev/null || true)
equal "$ended" "" "tasks in state D"

step "force under load"
attach initiator -n "$nqn" --nbd-device auto
d=${dev[initiator]}
fio --name=load --filename="$d" --allow_file_create=0 --ioengine=libaio --direct=1 --rw=randwrite --bs=4k --iodepth=32 --time_based --runtime=60 >"$work/load.fio" 2>&1 &
load=$!
progress "$d"
time initiator disconnect --force -d "$d"
eventually 30 gone $load
if wait $load; then fail "fio did not notice"; fi
eventually 20 gone "${pid[initiator]}"

step "force while the target is away"
attach initiator -n "$nqn" --nbd-device auto -l 600
d=${dev[initiator]}
mount "$d" /mnt/a
fio --name=load --filename=/mnt/a/file --ioengine=libaio --direct=1 --rw=randwrite --bs=4k --iodepth=32 --size=32M --time_based --runtime=60 >"$work/load.fio" 2>&1 &
load=$!
progress "$d"
kill -KILL "${pid[target]}"
sleep 12
kill -0 $load || fail "fio has ended when the target went away: $(cat "$work/load.fio")"
initiator list
time initiator disconnect --force -n "$nqn" || true # it says that there was no flush
eventually 30 gone $load
if wait $load; then fail "fio did not notice"; fi
eventually 40 gone "${pid[initiator]}"
umount /mnt/a
eventually 20 eval "[ ! -e /sys/block/${d#/dev/}/pid ]"
no_nbd_trouble errors
