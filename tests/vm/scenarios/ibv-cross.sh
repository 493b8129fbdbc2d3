# Software and device: iwarp:// on one side, rdma:// on Soft-iWARP on the other, both ways.
#
# host: rbd-initiator (iwarp://, rdma:// on siw)
# target: rbd-target (rdma:// on siw, iwarp://)
. "$(dirname "$0")/lib/common.sh"
. "$lib/ibv.sh"
pair siw
step "initiator iwarp://, target rdma://"
ibv_target -e "ram:64M,nqn=$nqn"
where=(ip netns exec rbd)
rbd_connect -n "$nqn" -i 2
for _ in 1 2 3; do
	for bs in 4k 128k; do verify_nbd 1 --rw=randrw --bs=$bs --iodepth=32 --size=4M; done
done
stop initiator
stop target
step "initiator rdma://, target iwarp://"
where=(ip netns exec rbd)
rbd_target -e "ram:64M,nqn=$nqn"
ibv_connect $rbd_addr -n "$nqn" -i 2
for bs in 4k 128k; do verify_nbd 1 --rw=randrw --bs=$bs --iodepth=32 --size=2M; done
stop initiator
stop target
