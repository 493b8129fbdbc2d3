# Two machines on a wire of MTU 1500 that loses and reorders packets.
#
# host: rbd-initiator
# target: Linux nvmet-rdma (siw)
# machines: 2
. "$(dirname "$0")/lib/common.sh"
machine
if [ "$ROLE" = target ]; then
	truncate -s 64M "$work/disk"
	rdma_device siw eth0
	kernel_target $target_addr
	kernel_subsystem "$nqn"
	kernel_namespace "$nqn" 1 "$work/disk"
	meet ready
	meet done
	exit
fi
meet ready
connect_and_verify
step "a copy there and back"
head -c 8M /dev/urandom >"$work/file"
truncate -s 64M "$work/file"
nbdcopy --flush "$work/file" "$(uri 1)"
nbdcopy "$(uri 1)" "$work/back"
cmp "$work/file" "$work/back"
something_was_lost command
stop initiator
meet done
