# Any number and size of queues that the host asks for.
#
# host: Linux nvme-rdma (siw)
# target: rbd-target
# fabrics: rxe siw
# short: yes
. "$(dirname "$0")/lib/common.sh"
pair
rbd_target -e "ram:32M,nqn=$nqn"
for options in "-i 1" "-i 2" "-i 1 -Q 16" "-i 2 -Q 256" "-i 1 -Q 1024" "-i 2 -W 1" "-i 2 -k 2"; do
	step "nvme connect $options"
	# shellcheck disable=SC2086 # the options are words
	nvme connect -t rdma -a $rbd_addr -s 4420 -n "$nqn" --hostnqn="$hostnqn" --hostid="$hostid" $options
	d=$(disk "$nqn" 1)
	c=$(controller "$nqn")
	echo "$(cat "/sys/class/nvme/$c/queue_count") queues of $(cat "/sys/class/nvme/$c/sqsize")"
	verify_io "$d" --rw=randrw --bs=4k --iodepth=32 --numjobs=2 --size=512k --offset_increment=4M
	nvme disconnect -n "$nqn"
done
stop target
