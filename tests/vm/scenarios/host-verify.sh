# All kinds of I/O give back what was written: 512 bytes to 1 MiB, in-capsule and keyed.
#
# host: Linux nvme-rdma (siw)
# target: rbd-target
# fabrics: rxe siw
# short: yes
. "$(dirname "$0")/lib/common.sh"
pair
truncate -s 48M "$work/disk.img"
rbd_target -e "$work/disk.img,nqn=$nqn" -e "ram:16M,nqn=$nqn,block-size=4096"
connect $rbd_addr "$nqn"
d=$(disk "$nqn" 1)
for bs in 512 1k 4k 8k 16k 60k 128k 512k 1m; do
	case $bs in *m | *[0-9][0-9][0-9]k) size=16M depth=8 ;; *) size=1M depth=32 ;; esac
	step "$bs at random"
	verify_io "$d" --rw=randwrite --bs=$bs --iodepth=$depth --size=$size
done
step "sizes mixed, reads among the writes, two jobs"
verify_io "$d" --rw=randrw --bsrange=512-256k --bs_unaligned=0 --blockalign=512 --iodepth=16 --numjobs=2 --size=4M --offset_increment=32M
step "the target's file and the disk are equal"
sync "$d"
cmp "$d" "$work/disk.img"
step "vectors of pieces that are not pages"
python3 - "$d" <<'P'
import os, sys, mmap
fd = os.open(sys.argv[1], os.O_RDWR | os.O_DIRECT)
m = mmap.mmap(-1, 1 << 20)
v = memoryview(m)
# Pieces of 512 bytes each in a page of its own: more than a command capsule takes as in-capsule data.
for n in (1, 2, 3, 4, 5, 16):
    pieces = [v[4096 * 2 * i + 512:4096 * 2 * i + 1024] for i in range(n)]
    for i, p in enumerate(pieces): p[:] = bytes([i + n]) * 512
    assert os.pwritev(fd, pieces, n << 20) == 512 * n
    for p in pieces: p[:] = bytes(512)
    assert os.preadv(fd, pieces, n << 20) == 512 * n
    for i, p in enumerate(pieces): assert bytes(p) == bytes([i + n]) * 512, (n, i)
P
step "blocks of 4096 bytes"
d=$(disk "$nqn" 2)
equal "$(blockdev --getss "$d")" 4096 "the block size"
verify_io "$d" --rw=randwrite --bs=4k --iodepth=32 --size=2M
verify_io "$d" --rw=write --bs=1m --iodepth=4 --size=16M
stop target
