# The target is killed and restarted again and again below a mounted file system under
# load, and the link is cut for longer than the keep-alive time and than the kernel
# waits for an answer: the load pauses, and nothing is lost.
# host: rbd-initiator
# target: rbd-target
# timeout: 6m
. "$(dirname "$0")/lib/common.sh"
nbd_setup
truncate -s 512M "$work/disk"
rbd_target -e "$work/disk,nqn=$nqn"
attach initiator -n "$nqn" --nbd-device auto -k 2 -c 1 --nbd-timeout 8
d=${dev[initiator]}
mkfs.xfs -q "$d"
mkdir -p /mnt/a
mount "$d" /mnt/a
defer eval "! mountpoint -q /mnt/a || umount /mnt/a"
load load /mnt/a/file --rw=randwrite --bs=4k --iodepth=32
for i in 1 2 3 4 5 6 7 8 9 10; do
	step "kill the target $i"
	sleep 1
	kill -KILL "${pid[target]}"
	wait "${pid[target]}" || true
	sleep 1
	rbd_target -e "$work/disk,nqn=$nqn"
	progress "$d"
	still_loaded load
done
step "the link is cut"
sleep 2
ip link set wire down
sleep 25
ip link set wire up
ip addr add $kernel_addr/24 dev wire 2>/dev/null || true
progress "$d"
still_loaded load
step "the load ends"
load_done load
umount /mnt/a
xfs_repair -n "$d" 2>/dev/null
initiator list
stop initiator
stop target
no_nbd_trouble
