# Reset and disconnect under load lose nothing.
#
# host: Linux nvme-rdma (siw)
# target: rbd-target
# fabrics: rxe siw
# kernel-log: I/O error|Buffer I/O
. "$(dirname "$0")/lib/common.sh"
pair
rbd_target -e "ram:64M,nqn=$nqn"
connect $rbd_addr "$nqn" -i 2
d=$(disk "$nqn" 1)
c=$(controller "$nqn")

step "five resets under load; what fio wrote must verify"
verify_until_enough "$d" --rw=randrw --bs=4k --iodepth=32 --numjobs=2 --size=2M --offset_increment=32M &
load=$!
for i in 1 2 3 4 5; do
	progress "$d"
	step "reset $i"
	nvme reset "/dev/$c"
	eventually 20 is_live "$nqn"
done
touch "$work/enough"
wait $load || fail "fio failed under resets"

step "disconnect under load, five times"
for i in $(seq 5); do
	fio --name=load --filename="$d" --allow_file_create=0 --rw=randrw --bs=4k --iodepth=32 --ioengine=libaio --direct=1 --time_based --runtime=20 >/dev/null 2>&1 &
	load=$!
	progress "$d"
	nvme disconnect -n "$nqn"
	wait $load || true # the disk went away
	nvme connect -t rdma -a $rbd_addr -s 4420 -n "$nqn" --hostnqn="$hostnqn" --hostid="$hostid" -i 2
	d=$(disk "$nqn" 1)
done
verify_io "$d" --rw=randrw --bs=16k --iodepth=16 --size=4M
stop target
