# The port of Soft-RoCE goes down under load and comes up again: requests wait, none fails.
# When rxe has to send while the port is down, its QP of the connection managers (GSI)
# goes to ERR and stays there, so that nobody can connect to this machine any more
# (6.12). Then the device is made anew.
#
# host: rbd-initiator (rdma:// on rxe)
# target: rbd-target (rdma:// on rxe)
# machines: 2
# timeout: 4m
. "$(dirname "$0")/lib/common.sh"
. "$lib/ibv.sh"
machine
tc qdisc del dev eth0 root
rdma_device rxe eth0
if [ "$ROLE" = target ]; then
	kernel_addr=$target_addr ibv_target -e "ram:64M,nqn=$nqn"
	meet ready
	meet loaded
	ip link set eth0 down
	sleep 20
	ip link set eth0 up
	sleep 5
	if rdma res show qp | grep 'type GSI state ERR'; then
		step "the device is made anew"
		timeout 30 rdma link delete rxe0
		rdma link add rxe0 type rxe netdev eth0
	fi
	meet done
	stop target
	exit
fi
meet ready
ibv_connect $target_addr -n "$nqn" -i 2 -c 2 -l 150 -k 5 -v
load 60
sleep 5
meet loaded
load_ends
grep -iE 'lost|reconnect' "$work/initiator.err" | head -n 5
verify_nbd 1 --rw=randrw --bs=4k --iodepth=16 --size=1M
stop initiator
meet done
