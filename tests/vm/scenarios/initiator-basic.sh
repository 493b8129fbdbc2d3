# All kinds of I/O through the NBD socket to the kernel's target.
#
# host: rbd-initiator
# target: Linux nvmet-rdma (siw)
# fabrics: rxe siw
# short: yes
. "$(dirname "$0")/lib/common.sh"
pair
truncate -s 64M "$work/disk" "$work/disk3"
head -c 4M /dev/urandom >"$work/readonly"
kernel_target $kernel_addr
kernel_subsystem "$nqn"
kernel_namespace "$nqn" 1 "$work/disk"
kernel_namespace "$nqn" 2 "$work/readonly"
kernel_namespace "$nqn" 3 "$work/disk3" plain
write_protect "$nqn" 2
rbd_connect -n "$nqn"
cat "$work/initiator.out"
equal "$(cut -f 2,3,5 "$work/initiator.out" | tr '\t\n' '  ')" "67108864 512 1 4194304 512 2 67108864 4096 3 " "what connect printed"

step "nbdinfo"
nbdinfo "$(uri 1)"
equal "$(nbdinfo --size "$(uri 1)")" $((64 << 20)) "the size"
nbdinfo --is read-only "$(uri 2)"
! nbdinfo --is read-only "$(uri 1)" || fail "namespace 1 is read-only"

step "fio with verify"
for bs in 512 4k 16k 128k; do verify_nbd 1 --rw=randwrite --bs=$bs --iodepth=32 --size=$([ $bs = 128k ] && echo 8M || echo 1M); done
verify_nbd 1 --rw=write --bs=1m --iodepth=4 --size=16M
verify_nbd 1 --rw=randrw --bsrange=512-256k --blockalign=512 --iodepth=16 --size=4M

step "large and odd-sized I/O"
qemu-io -f raw "$(uri 1)" -c 'write -P 0x5a 1 16777217' -c 'read -P 0x5a 1 16777217' -c 'write -P 0x11 4095 2' -c 'read -P 0x11 4095 2' \
	-c 'read -P 0x5a 1 4094' -c 'read -P 0x5a 4097 16773121' -c 'flush' >"$work/qemu.out" 2>&1 || { cat "$work/qemu.out"; fail qemu-io; }
! grep -i fail "$work/qemu.out" || fail "qemu-io"
cmp -n 4094 -i 1:0 "$work/disk" <(head -c 4094 /dev/zero | tr '\0' '\132')

step "discard, write zeroes, FUA"
qemu-io -f raw -d unmap "$(uri 1)" -c 'write -f -P 0x77 0 1M' -c 'discard 0 64k' -c 'write -z -f 64k 64k' -c 'write -z -u 128k 64k' -c 'read -P 0 64k 128k' -c 'read -P 0x77 192k 64k' \
	>"$work/qemu.out" 2>&1 || { cat "$work/qemu.out"; fail qemu-io; }
! grep -i fail "$work/qemu.out" || fail "qemu-io"

step "other namespaces"
nbdcopy "$(uri 2)" "$work/copy"
cmp "$work/copy" "$work/readonly"
refused . nbdcopy "$work/copy" "$(uri 2)"
nbdcopy --flush "$work/copy" "$(uri 3)"
cmp -n $((4 << 20)) "$work/copy" "$work/disk3"
step "the whole disk"
nbdcopy "$(uri 1)" "$work/whole"
cmp "$work/whole" "$work/disk"
stop initiator
[ -z "$(compgen -G "$work/*.sock" || true)" ] || fail "the socket was left behind"
