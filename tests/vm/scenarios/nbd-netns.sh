# Kernel devices in another network namespace than the first: older kernels have no
# netlink family for nbd there, and devices are attached by the old ioctls.
# host: rbd-initiator
# target: rbd-target
. "$(dirname "$0")/lib/common.sh"
nbd_setup
truncate -s 64M "$work/disk"
rbd_target -e "$work/disk,nqn=$nqn"
start initiator rbd-initiator connect -a $rbd_addr -n "$nqn" --nbd-device auto -i 4
d=$(cut -f 1 "$work/initiator.out")
[[ $d == /dev/nbd* ]] || fail "no device: $(cat "$work/initiator.err")"
grep "old ioctls are used" "$work/initiator.err" || echo "this kernel has the netlink family in all namespaces"
equal "$(sysfs "$d" size)" 131072 "the size in sectors"
mkfs.ext4 -q "$d"
mkdir -p /mnt/a
mount "$d" /mnt/a
verify_io /mnt/a/file --rw=randrw --bs=4k --iodepth=32 --size=8M
refused "is mounted on /mnt/a" initiator disconnect -d "$d"
umount /mnt/a
step "the file grows"
truncate -s 96M "$work/disk"
eventually 20 eval "[ \$(cat /sys/block/${d#/dev/}/size) -eq 196608 ]"
step detach
initiator disconnect -d "$d"
eventually 20 gone "${pid[initiator]}"
wait "${pid[initiator]}"
[ ! -e "/sys/block/${d#/dev/}/pid" ] || fail "the device is still connected"
step "the process is killed"
start initiator rbd-initiator connect -a $rbd_addr -n "$nqn" --nbd-device "$d" -i 1
kill -KILL "${pid[initiator]}"
wait "${pid[initiator]}" || true
initiator disconnect-all # an attachment by ioctls is over already
eventually 20 eval "[ ! -e /sys/block/${d#/dev/}/pid ]"
stop target
no_nbd_trouble
