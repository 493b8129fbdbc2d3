# Two machines on a wire of MTU 1500 that loses and reorders packets.
#
# host: Linux nvme-rdma (siw)
# target: rbd-target
# machines: 2
. "$(dirname "$0")/lib/common.sh"
machine
[ "$ROLE" = host ] || serve
rdma_device siw eth0
meet ready
connect $target_addr "$nqn" -i 2
d=$(disk "$nqn" 1)
for bs in 4k 128k; do
	step "$bs"
	verify_io "$d" --rw=randrw --bs=$bs --iodepth=16 --size=4M
done
step "a file system"
modprobe ext4
mke2fs -q -t ext4 "$d"
mkdir "$work/mnt"
mount "$d" "$work/mnt"
head -c 8M /dev/urandom >"$work/file"
cp "$work/file" "$work/mnt/"
umount "$work/mnt"
mount "$d" "$work/mnt"
cmp "$work/file" "$work/mnt/file"
umount "$work/mnt"
something_was_lost command
nvme disconnect -n "$nqn"
meet done
