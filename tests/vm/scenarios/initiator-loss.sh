# A wire of MTU 1500 that loses and reorders packets: slower, never wrong.
#
# host: rbd-initiator
# target: Linux nvmet-rdma (siw)
. "$(dirname "$0")/lib/common.sh"
pair
truncate -s 32M "$work/disk"
kernel_target $kernel_addr
kernel_subsystem "$nqn"
kernel_namespace "$nqn" 1 "$work/disk"
rbd_connect -n "$nqn"
lossy_wire
for bs in 512 4k 64k 1m; do
	step "$bs"
	verify_nbd 1 --rw=randrw --bs=$bs --iodepth=16 --size=$([ $bs = 1m ] && echo 16M || echo 1M)
done
something_was_lost
clean_wire
stop initiator
