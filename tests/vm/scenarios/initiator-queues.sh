# Fewer queues than asked for, small and large queues, any size of in-capsule data.
#
# host: rbd-initiator
# target: Linux nvmet-rdma (siw)
# fabrics: rxe siw
# short: yes
. "$(dirname "$0")/lib/common.sh"
pair
truncate -s 32M "$work/disk"

step "a target that grants 2 of 4 queues"
kernel_target $kernel_addr
kernel_subsystem "$nqn"
kernel_namespace "$nqn" 1 "$work/disk"
echo 2 >"$nvmet/subsystems/$nqn/attr_qid_max"
rbd_connect -n "$nqn" -i 4
verify_nbd 1 --rw=randrw --bs=4k --iodepth=32 --size=2M
stop initiator

step "queue sizes"
for q in "-i 1 -Q 2" "-i 1 -Q 16" "-i 2 -Q 128" "-i 1 -Q 1024"; do
	# shellcheck disable=SC2086 # the options are words
	rbd_connect -n "$nqn" $q
	verify_nbd 1 --rw=randrw --bs=4k --iodepth=64 --size=512k
	verify_nbd 1 --rw=write --bs=256k --iodepth=8 --size=4M
	stop initiator
done

step "in-capsule data of 0 and 16 KiB"
rm "$nvmet/ports/1/subsystems/$nqn"
for inline in 0 16384; do
	echo $inline >$nvmet/ports/1/param_inline_data_size
	ln -s "$nvmet/subsystems/$nqn" $nvmet/ports/1/subsystems/
	rbd_connect -n "$nqn" -i 1
	for bs in 512 4k 8k 16k 32k; do verify_nbd 1 --rw=randwrite --bs=$bs --iodepth=16 --size=256k; done
	stop initiator
	rm "$nvmet/ports/1/subsystems/$nqn"
done
ln -s "$nvmet/subsystems/$nqn" $nvmet/ports/1/subsystems/
