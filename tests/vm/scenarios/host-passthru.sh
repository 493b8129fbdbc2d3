# Commands that no well-behaved driver sends: each gets a status, and the disk stays usable.
#
# host: Linux nvme-rdma (siw)
# target: rbd-target
# fabrics: rxe siw
. "$(dirname "$0")/lib/common.sh"
pair
rbd_target -e "ram:16M,nqn=$nqn" -e "ram:16M,nqn=$nqn,ro"
connect $rbd_addr "$nqn" -i 1
d=$(disk "$nqn" 1)
c=/dev/$(controller "$nqn")
head -c 8192 /dev/urandom >"$work/data"
io() { nvme io-passthru "$d" -n 1 "$@"; }
admin() { nvme admin-passthru "$c" "$@"; }

recoveries=$(recoveries)

step "opcodes that do not exist"
for op in 0x03 0x0d 0x55 0x7f 0x80 0xff; do refused . io -o $op; done
for op in 0x01 0x05 0x11 0x14 0x80 0xc0; do refused . admin -o $op; done
step "lengths that do not fit the blocks"
refused . io -o 0x02 --cdw12=0 -l 4096 -r
refused . io -o 0x02 --cdw12=7 -l 512 -r
refused . io -o 0x01 --cdw12=0 -l 4096 -w -i "$work/data"
refused . io -o 0x01 --cdw12=7 -l 512 -w -i "$work/data"
refused . io -o 0x02 --cdw12=0xffff -l 4096 -r
step "no data where there must be some"
refused . io -o 0x02 --cdw12=0
refused . io -o 0x01 --cdw12=0
refused . io -o 0x09 --cdw10=0 --cdw11=4
step "blocks beyond the end, and sums that wrap"
refused . io -o 0x02 --cdw10=0xffffffff --cdw11=0xffffffff --cdw12=0 -l 512 -r
refused . io -o 0x02 --cdw10=0xfffffff9 --cdw11=0xffffffff --cdw12=7 -l 4096 -r
refused . io -o 0x08 --cdw10=0xffffffff --cdw11=0xffffffff --cdw12=0xffff
step "identify, log pages and features that do not exist"
refused . admin -o 0x06 --cdw10=0xff -l 4096 -r
refused . admin -o 0x02 --cdw10=0x007f00ee -l 512 -r
refused . admin -o 0x0a --cdw10=0xee
refused . admin -o 0x09 --cdw10=0xee
refused . admin -o 0x06 --cdw10=0x00 -n 1025 -l 4096 -r
refused . admin -o 0x06 --cdw10=0x00 -n 0xffffffff -l 4096 -r
step "a namespace that is not there reads as zeros in Identify"
admin -o 0x06 --cdw10=0x00 -n 77 -l 4096 -r -b >"$work/absent"
cmp -n 4096 "$work/absent" /dev/zero
step "log pages with odd lengths and offsets"
admin -o 0x02 --cdw10=0x00000002 -n 0xffffffff -l 4 -r >/dev/null
admin -o 0x02 --cdw10=0x00020002 -n 0xffffffff -l 12 -r >/dev/null
step "writes to a read-only namespace"
ro=$(disk "$nqn" 2)
equal "$(blockdev --getro "$ro")" 1 "the read-only flag of $ro"
refused . nvme io-passthru "$d" -n 2 -o 0x01 --cdw12=0 -l 512 -w -i "$work/data"
refused . nvme io-passthru "$d" -n 2 -o 0x08 --cdw12=0
step "the disk is as it was"
is_live "$nqn" || fail "the controller is $(state "$nqn")"
cmp -n $((16 << 20)) "$d" /dev/zero
verify_io "$d" --rw=randrw --bs=4k --iodepth=8 --size=1M
equal "$(recoveries)" "$recoveries" "the number of connections that were lost"
stop target
