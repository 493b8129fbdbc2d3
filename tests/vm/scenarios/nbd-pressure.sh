# Memory is short while a file system on the device is written: the kernel gets memory
# back by writing to the device, so that the initiator must not wait for any.
# host: rbd-initiator
# target: rbd-target
# timeout: 6m
. "$(dirname "$0")/lib/common.sh"
nbd_setup
rbd_target -e "ram:640M,nqn=$nqn"
attach initiator -n "$nqn" --nbd-device auto
d=${dev[initiator]}
step "the target has all memory of its disk"
dd if=/dev/zero of="$d" bs=1M count=640 oflag=direct status=none
mkfs.ext4 -q -E nodiscard "$d"
mkdir -p /mnt/a
mount "$d" /mnt/a
defer eval "! mountpoint -q /mnt/a || umount /mnt/a"

available() { awk '/^MemAvailable/ { print $2 }' /proc/meminfo; }
sync
echo 3 >/proc/sys/vm/drop_caches
rest=$((160 << 10))
step "of $(available) KiB, $rest are left"
start hog python3 -c "
import time
b = b'r' * (($(available) - $rest) << 10)
print('full', flush=True)
time.sleep(600)"
eventually 60 grep -q full "$work/hog.out"
step "a file of three times what is left: now $(available) KiB"
scan() { awk '/^(pgscan_direct|pgsteal_kswapd|allocstall_normal) / { printf "%s %d  ", $1, $2 }' /proc/vmstat; }
scan; echo
fio --name=pressure --filename=/mnt/a/file --ioengine=psync --rw=write --bs=64k --size=480M --fallocate=none --end_fsync=1 \
	--verify=crc32c --verify_fatal=1 --verify_state_save=0 --do_verify=1 >"$work/fio.out" 2>&1 || { cat "$work/fio.out"; fail "fio"; }
scan; echo
kill -0 "${pid[initiator]}" || fail "the initiator is gone"
kill -0 "${pid[hog]}" || fail "what took the memory was killed: it was not short for long"
kill_program hog
umount /mnt/a
fsck.ext4 -fn "$d" >/dev/null
stop initiator
stop target
no_nbd_trouble
