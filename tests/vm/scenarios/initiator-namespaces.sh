# Namespaces of the kernel's target come, grow and go while the initiator is connected.
#
# host: rbd-initiator
# target: Linux nvmet-rdma (siw)
# fabrics: rxe siw
. "$(dirname "$0")/lib/common.sh"
pair
truncate -s 16M "$work/disk"
truncate -s 8M "$work/other"
kernel_target $kernel_addr
kernel_subsystem "$nqn"
kernel_namespace "$nqn" 1 "$work/disk"
rbd_connect -v -n "$nqn"
step "grown"
truncate -s 32M "$work/disk"
losetup --set-capacity "$(cat "$nvmet/subsystems/$nqn/namespaces/1/device_path")"
echo 1 >"$nvmet/subsystems/$nqn/namespaces/1/revalidate_size"
logged 5 "$work/initiator.err" 'namespace changed.*nsid=1.*size=33554432'
verify_nbd 1 --rw=randrw --bs=4k --iodepth=8 --size=1M
step "added"
kernel_namespace "$nqn" 2 "$work/other"
logged 5 "$work/initiator.err" 'namespace changed.*nsid=2'
step "gone"
echo 0 >"$nvmet/subsystems/$nqn/namespaces/2/enable"
eventually 5 eval "[ \$(grep -c 'namespace changed.*nsid=2' '$work/initiator.err') -ge 2 ]"
verify_nbd 1 --rw=randrw --bs=4k --iodepth=8 --size=1M
stop initiator
