# A mounted device grows with the target's file, keeps its block size, and does not
# shrink below what is in use; two namespaces are two devices.
# host: rbd-initiator
# target: rbd-target
. "$(dirname "$0")/lib/common.sh"
nbd_setup
truncate -s 64M "$work/disk"
truncate -s 64M "$work/second"
rbd_target -e "$work/disk,nqn=$nqn,block-size=4096" -e "$work/second,nqn=$nqn,ro"
attach initiator -n "$nqn" --nbd-device auto
cat "$work/initiator.out"
equal "$(wc -l <"$work/initiator.out")" 2 "the number of devices"
d=${dev[initiator]}
second=$(sed -n 2p "$work/initiator.out" | cut -f 1)
equal "$(sysfs "$d" queue/logical_block_size)" 4096 "the block size"
equal "$(sysfs "$second" queue/logical_block_size)" 512 "the block size of the second"
equal "$(sysfs "$second" ro)" 1 "the second is read-only"
refused "Operation not permitted|Read-only" dd if=/dev/zero of="$second" bs=4k count=1 oflag=direct

size_is() { [ "$(sysfs "$d" size)" = $(($1 / 512)) ]; }
mkfs.ext4 -q "$d"
mkdir -p /mnt/a
mount "$d" /mnt/a
defer eval "! mountpoint -q /mnt/a || umount /mnt/a"
cp -r "$lib" /mnt/a/

step "the file grows"
truncate -s 200M "$work/disk"
eventually 20 size_is $((200 << 20))
equal "$(sysfs "$d" queue/logical_block_size)" 4096 "the block size"
resize2fs "$d" 2>/dev/null
[ "$(df --output=size -B1M /mnt/a | tail -n 1)" -gt 150 ] || fail "the file system has not grown: $(df /mnt/a)"
verify_io /mnt/a/file --rw=write --bs=64k --iodepth=4 --size=100M

step "a shrink is refused while it is mounted"
truncate -s 190M "$work/disk"
logged 20 "$work/initiator.err" "shrink $d from 209715200 to 199229440 bytes: $d is in use: .* is mounted on /mnt/a"
size_is $((200 << 20)) || fail "the device shrank"
truncate -s 200M "$work/disk"
sleep 2

step "and done when nobody uses it"
umount /mnt/a
fsck.ext4 -fn "$d" >/dev/null
truncate -s 100M "$work/disk"
eventually 20 size_is $((100 << 20))
initiator disconnect-all
eventually 20 gone "${pid[initiator]}"
for x in "$d" "$second"; do
	[ ! -e "/sys/block/${x#/dev/}/pid" ] || fail "$x is still connected"
done
stop target
no_nbd_trouble
