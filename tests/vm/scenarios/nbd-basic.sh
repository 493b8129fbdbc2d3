# A namespace is a kernel device: partitions, ext4 and xfs, I/O verified at depth 32
# over four connections, and a detach that leaves nothing behind.
# host: rbd-initiator
# target: rbd-target
. "$(dirname "$0")/lib/common.sh"
nbd_setup
truncate -s 720M "$work/disk"
rbd_target -e "$work/disk,nqn=$nqn"

step attach
attach initiator -n "$nqn" --nbd-device auto
d=${dev[initiator]}
cat "$work/initiator.out"
equal "$(cat "$work/initiator.out")" "$(printf '%s\t754974720\t512\t%s\t1' "$d" "$nqn")" "the line that tells that it is ready"
equal "$(sysfs "$d" size)" 1474560 "the size in sectors"
equal "$(sysfs "$d" backend)" "rbd-$nqn-1" "the backend identifier"
equal "$(sysfs "$d" ro)" 0 "read-only"
equal "$(sysfs "$d" queue/logical_block_size)" 512 "the block size"
equal "$(sysfs "$d" queue/write_cache)" "write back" "the write cache"
equal "$(sysfs "$d" queue/fua)" 1 "FUA"
equal "$(sysfs "$d" queue/rotational)" 0 "rotational"
equal "$(sysfs "$d" queue/discard_max_bytes)" 67108864 "the longest trim"
equal "$(sysfs "$d" queue/write_zeroes_max_bytes)" 0 "the longest write zeroes"
equal "$(readlink -f "/dev/disk/by-id/rbd-$nqn-1")" "$d" "what the link names"
initiator list

step "partitions, which are there when the next process looks"
printf 'label: gpt\n,300M\n,\n' | sfdisk -q "$d"
udevadm settle -t 60
equal "$(readlink -f "/dev/disk/by-id/rbd-$nqn-1-part2")" "${d}p2" "what the link of the partition names"

step "ext4 and xfs"
mkdir -p /mnt/a /mnt/b
mkfs.ext4 -q "${d}p1"
mkfs.xfs -q "${d}p2"
mount "${d}p1" /mnt/a
mount "${d}p2" /mnt/b
cp -r "$lib" /mnt/a/
cp -r "$lib" /mnt/b/
verify_io /mnt/b/file --rw=randwrite --bs=4k --iodepth=32 --size=8M

step "a detach is refused while it is mounted"
refused "is mounted on /mnt/a" initiator disconnect -d "$d"
refused "is mounted on /mnt/b" initiator disconnect -n "$nqn"
umount /mnt/a
refused "is mounted on /mnt/b" initiator disconnect-all
umount /mnt/b
fsck.ext4 -fn "${d}p1" >/dev/null
xfs_repair -n "${d}p2" 2>/dev/null

step "and while it is open"
exec {held}<"${d}p1"
refused "p1 is open in process $$" initiator disconnect -d "$d"
exec {held}<&-

step "verified I/O over four connections"
verify_io "$d" --rw=randrw --bs=4k --iodepth=32 --size=16M --numjobs=4 --offset_increment=64M
verify_io "$d" --rw=randwrite --bs=256k --iodepth=8 --size=64M
blkdiscard -z -o 0 -l 64M "$d"
blkdiscard -o 64M -l 64M "$d"
cmp -n $((64 << 20)) "$d" /dev/zero

printf 'label: gpt\n,300M\n,\n' | sfdisk -q --wipe always "$d"
udevadm settle -t 60

step detach
initiator disconnect -d "$d"
eventually 20 gone "${pid[initiator]}"
wait "${pid[initiator]}"
[ ! -e "/sys/block/${d#/dev/}/pid" ] || fail "the device is still connected"
equal "$(find "$work" -name 'connect-*' | wc -l)" 0 "the number of files left behind"

step "the partitions are there when connect says that it is ready"
attach again -n "$nqn" --nbd-device /dev/nbd7
equal "${dev[again]}" /dev/nbd7 "the device"
equal "$(ls -d /sys/block/nbd7/nbd7p* | wc -l)" 2 "the number of partitions"
equal "$(readlink -f "/dev/disk/by-id/rbd-$nqn-1-part1")" /dev/nbd7p1 "what the link of the partition names"
stop again
stop target
no_nbd_trouble
