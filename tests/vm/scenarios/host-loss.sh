# A wire of MTU 1500 that loses and reorders packets: slower, never wrong.
#
# host: Linux nvme-rdma (siw)
# target: rbd-target
. "$(dirname "$0")/lib/common.sh"
pair
rbd_target -e "ram:64M,nqn=$nqn"
connect $rbd_addr "$nqn" -i 2
d=$(disk "$nqn" 1)
lossy_wire
for bs in 512 4k 64k 1m; do
	step "$bs"
	verify_io "$d" --rw=randrw --bs=$bs --iodepth=16 --size=$([ $bs = 1m ] && echo 16M || echo 1M)
done
something_was_lost
is_live "$nqn" || fail "the controller is $(state "$nqn")"
clean_wire
stop target
