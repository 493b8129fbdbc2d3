# Two machines on a wire of MTU 1500 that loses and reorders packets, our programs at both ends.
#
# host: rbd-initiator
# target: rbd-target
# machines: 2
. "$(dirname "$0")/lib/common.sh"
machine
[ "$ROLE" = host ] || serve
meet ready
connect_and_verify
something_was_lost command
stop initiator
meet done
