# An exported block device that grows, vanishes and comes back is followed: the hosts
# get the events.
# host: rbd-initiator
# target: rbd-target
. "$(dirname "$0")/lib/common.sh"
nbd_setup
modprobe loop
modprobe null_blk nr_devices=0
mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config
null=/sys/kernel/config/nullb/watched
mkdir $null
defer rmdir $null
echo 64 >$null/size
echo 1 >$null/memory_backed
echo 1 >$null/power
defer eval "echo 0 >$null/power"
gone_disk=/dev/$(cat $null/index | sed 's/^/nullb/')
[ -b "$gone_disk" ] || gone_disk=/dev/watched
[ -b "$gone_disk" ] || fail "no null_blk device: $(ls /dev/null* /dev/watched)"
truncate -s 64M "$work/file"
loop=$(losetup --find --show "$work/file")
defer losetup -d "$loop"
rbd_target -e "$loop,nqn=$nqn,nsid=1" -e "$gone_disk,nqn=$nqn,nsid=2"
attach initiator -n "$nqn" --nbd-device auto
d=${dev[initiator]}
second=$(sed -n 2p "$work/initiator.out" | cut -f 1)

step "the first grows"
truncate -s 96M "$work/file"
losetup -c "$loop"
eventually 20 eval "[ \$(cat /sys/block/${d#/dev/}/size) -eq $((96 * 2048)) ]"

step "the second vanishes"
dd if="$second" of=/dev/null bs=4k count=1 iflag=direct status=none
echo 0 >$null/power
logged 20 "$work/target.err" "has vanished"
logged 20 "$work/initiator.err" "namespace changed.*removed"
if dd if="$second" of=/dev/null bs=4k count=1 iflag=direct status=none 2>/dev/null; then fail "a device that has vanished was read"; fi

step "and comes back"
echo 1 >$null/power
logged 20 "$work/target.err" "is back"
logged 20 "$work/initiator.err" "namespace changed.*added"
stop initiator
stop target
no_nbd_trouble errors
