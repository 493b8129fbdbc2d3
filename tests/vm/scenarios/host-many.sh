# Twelve subsystems and a subsystem with 64 namespaces at once, one of them by two
# controllers of the same host.
#
# host: Linux nvme-rdma (siw)
# target: rbd-target
# fabrics: rxe siw
. "$(dirname "$0")/lib/common.sh"
pair
exports=()
for i in $(seq 12); do exports+=(-e "ram:4M,nqn=nqn.2026-11.io.rbd:s$i"); done
for i in $(seq 64); do exports+=(-e "ram:1M,nqn=$nqn"); done
rbd_target "${exports[@]}"

step "64 namespaces"
connect $rbd_addr "$nqn" -i 1
disk "$nqn" 64
equal "$(nvme list-ns "/dev/$(controller "$nqn")" | grep -c :)" 64 "the number of namespaces"
for nsid in 1 17 64; do
	d=$(disk "$nqn" $nsid)
	head -c 4096 /dev/zero | tr '\0' "\\$(printf %o $nsid)" | dd of="$d" bs=4096 oflag=direct status=none
done
for nsid in 1 17 64; do
	d=$(disk "$nqn" $nsid)
	equal "$(head -c 1 "$d" | od -An -tu1 | tr -d ' ')" $nsid "the first byte of namespace $nsid"
done
equal "$(cat /sys/block/nvme[0-9]*n[0-9]*/uuid | sort | uniq | wc -l)" 64 "the number of UUIDs"

step "12 subsystems"
for i in $(seq 12); do connect $rbd_addr nqn.2026-11.io.rbd:s"$i" -i 1 -Q 16; done
for i in $(seq 12); do
	d=$(disk nqn.2026-11.io.rbd:s"$i" 1)
	echo "subsystem $i" | dd of="$d" bs=512 conv=sync oflag=direct status=none
done
for i in $(seq 12); do
	equal "$(head -n 1 "$(disk nqn.2026-11.io.rbd:s"$i" 1)" | tr -d '\0')" "subsystem $i" "what subsystem $i holds"
done

step "the same host twice"
# The target makes sure first that nothing of the host is on its way to the others.
again=nqn.2026-11.io.rbd:s1
# nvme-cli does not make a second one, whatever its options.
echo "transport=rdma,traddr=$rbd_addr,trsvcid=4420,nqn=$again,hostnqn=$hostnqn,hostid=$hostid,nr_io_queues=2,queue_size=16,duplicate_connect" >/dev/nvme-fabrics
equal "$(cat /sys/class/nvme/nvme*/subsysnqn | grep -cx $again)" 2 "the number of controllers of one subsystem"
equal "$(cat /sys/class/nvme/nvme*/state | sort | uniq -c | awk '{print $2}')" live "the state of all controllers"
for d in "$(disk $again 1)" "$(disk nqn.2026-11.io.rbd:s2 1)"; do dd if="$d" of=/dev/null bs=64k iflag=direct status=none; done
stop target
