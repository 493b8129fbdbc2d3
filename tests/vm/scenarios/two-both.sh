# Two machines on a wire of MTU 1500 that loses and reorders packets, our programs at both ends.
#
# host: rbd-initiator
# target: rbd-target
# machines: 2
. "$(dirname "$0")/lib/common.sh"
machine
if [ "$ROLE" = target ]; then
	start target rbd-target serve -l iwarp://$target_addr:4420 --allow-any-host -e "ram:64M,nqn=$nqn"
	meet ready
	meet done
	stop target
	exit
fi
meet ready
start initiator rbd-initiator connect -a $target_addr -n "$nqn"
for bs in 4k 128k; do
	step "$bs"
	verify_nbd 1 --rw=randrw --bs=$bs --iodepth=16 --size=4M
done
something_was_lost command
stop initiator
meet done
