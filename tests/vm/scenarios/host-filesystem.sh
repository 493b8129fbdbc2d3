# A file system on the disk: made, filled, unmounted, checked; discarded blocks read as zeros.
#
# host: Linux nvme-rdma (siw)
# target: rbd-target
# fabrics: rxe siw
. "$(dirname "$0")/lib/common.sh"
modprobe ext4
pair
truncate -s 128M "$work/disk.img"
rbd_target -e "$work/disk.img,nqn=$nqn"
connect $rbd_addr "$nqn"
d=$(disk "$nqn" 1)

step "ext4"
mke2fs -q -t ext4 "$d"
mkdir "$work/mnt"
mount "$d" "$work/mnt"
defer umount "$work/mnt"
mkdir "$work/files"
for i in $(seq 40); do head -c $((i * i * 1000)) /dev/urandom >"$work/files/$i"; done
cp -r "$work/files" "$work/mnt/"
sync
fstrim -v "$work/mnt"
umount "$work/mnt"
e2fsck -fn "$d" >"$work/fsck.err" 2>&1
mount "$d" "$work/mnt"
diff -r "$work/files" "$work/mnt/files"
umount "$work/mnt"

step "the target's own file holds the same file system"
sync "$d"
cmp "$d" "$work/disk.img"
e2fsck -fn "$work/disk.img" >"$work/fsck.err" 2>&1

step "blkdiscard"
before=$(du -k "$work/disk.img" | cut -f 1)
blkdiscard "$d"
cmp -n $((128 << 20)) "$work/disk.img" /dev/zero
after=$(du -k "$work/disk.img" | cut -f 1)
echo "the file used $before KiB, and after the discard $after KiB"
[ "$after" -lt 1024 ] || fail "the discard freed nothing"
dd if=/dev/urandom of="$d" bs=1M count=8 oflag=direct status=none
blkdiscard -z -o 1M -l 2M "$d"
cmp -n $((2 << 20)) -i $((1 << 20)):0 "$work/disk.img" /dev/zero
! cmp -s -n $((1 << 20)) "$work/disk.img" /dev/zero || fail "too much was zeroed"
stop target
