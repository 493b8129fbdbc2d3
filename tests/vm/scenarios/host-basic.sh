# The disk comes up with a queue per core; the commands of nvme-cli get proper answers.
#
# host: Linux nvme-rdma (siw)
# target: rbd-target
# fabrics: rxe siw
# short: yes
. "$(dirname "$0")/lib/common.sh"
pair
truncate -s 64M "$work/disk.img"
rbd_target -e "$work/disk.img,nqn=$nqn,uuid=6d0c8a4e-1c2b-4d3e-8f90-0123456789ab"
connect $rbd_addr "$nqn"
d=$(disk "$nqn" 1)
c=$(controller "$nqn")

step "$d: queues, size, identity"
equal "$(cat "/sys/class/nvme/$c/queue_count")" $(($(nproc) + 1)) "the number of queues with the admin queue"
equal "$(blockdev --getsize64 "$d")" $((64 << 20)) "the size"
equal "$(cat "/sys/block/${d##*/}/uuid")" 6d0c8a4e-1c2b-4d3e-8f90-0123456789ab "the UUID"
equal "$(cat "/sys/block/${d##*/}/queue/write_cache")" "write back" "the write cache"
nvme list | tee "$work/list"
grep -q "$d" "$work/list" || fail "nvme list does not know $d"

step "id-ctrl, id-ns, ns-descs, list-ns"
nvme id-ctrl "/dev/$c" -o json >"$work/ctrl"
equal "$(field "$work/ctrl" subnqn)" "$nqn" subnqn
equal "$(field "$work/ctrl" mdts)" 8 mdts
[ "$(field "$work/ctrl" kas)" -gt 0 ] || fail "kas is 0"
nvme id-ns "$d" -o json >"$work/ns"
equal "$(field "$work/ns" nsze)" $((64 << 11)) nsze
nvme ns-descs "$d" | tee "$work/descs"
grep -qi 6d0c8a4e-1c2b-4d3e-8f90-0123456789ab "$work/descs" || fail "the UUID is not among the descriptors"
nvme list-ns "/dev/$c" | grep -q '0x1$' || fail "list-ns does not know namespace 1"

step "log pages and features"
dd if=/dev/zero of="$d" bs=1M count=4 oflag=direct status=none
nvme smart-log "$d" -o json >"$work/smart"
[ "$(field "$work/smart" host_write_commands)" -ge 4 ] || fail "the smart log counts $(field "$work/smart" host_write_commands) writes after 4"
nvme error-log "/dev/$c" >"$work/errors"
nvme fw-log "/dev/$c" >/dev/null
nvme effects-log "/dev/$c" >/dev/null || true # the page may be left out
nvme changed-ns-list-log "/dev/$c" >/dev/null
nvme get-feature "/dev/$c" -f 7 -H
nvme get-feature "/dev/$c" -f 6 -H # volatile write cache
nvme get-feature "/dev/$c" -f 0xf  # keep-alive timer
refused . nvme get-feature "/dev/$c" -f 0xbe
for property in 0 8 0x14 0x1c; do nvme get-property "/dev/$c" -o $property; done # CAP, VS, CC, CSTS

step "flush, dsm, write-zeroes, write, read, compare"
nvme flush "$d" -n 1
head -c 4096 /dev/urandom >"$work/data"
nvme write "$d" -s 100 -c 7 -z 4096 -d "$work/data"
nvme read "$d" -s 100 -c 7 -z 4096 -d "$work/back" 2>/dev/null
cmp "$work/data" "$work/back"
nvme compare "$d" -s 100 -c 7 -z 4096 -d "$work/data"
head -c 4096 /dev/zero >"$work/zero"
refused 'Compare Failure|COMPARE_FAILED|0x[0-9a-f]*285' nvme compare "$d" -s 100 -c 7 -z 4096 -d "$work/zero"
cmp -n 4096 -i $((100 * 512)):0 "$work/disk.img" "$work/data"
nvme write-zeroes "$d" -s 100 -c 7
cmp -n 4096 -i $((100 * 512)):0 "$work/disk.img" /dev/zero
nvme write "$d" -s 200 -c 7 -z 4096 -d "$work/data"
nvme dsm "$d" -n 1 -d -s 200 -b 8
cmp -n 4096 -i $((200 * 512)):0 "$work/disk.img" /dev/zero

step "what is not supported, or out of range, is refused politely"
refused . nvme write-uncor "$d" -s 1 -c 0
refused 'Range|LBA_RANGE|0x[0-9a-f]*80' nvme read "$d" -s $((64 << 11)) -c 0 -z 512 -d "$work/back"
refused 'Range|LBA_RANGE|0x[0-9a-f]*80' nvme read "$d" -s $(((64 << 11) - 1)) -c 1 -z 1024 -d "$work/back"
refused 'Range|LBA_RANGE|0x[0-9a-f]*80' nvme write "$d" -s $((64 << 11)) -c 0 -z 512 -d "$work/zero"
refused 'Range|LBA_RANGE|0x[0-9a-f]*80' nvme read "$d" -s 0xffffffffffffffff -c 0 -z 512 -d "$work/back"
refused 'Range|LBA_RANGE|0x[0-9a-f]*80' nvme write-zeroes "$d" -s $((64 << 11)) -c 0
refused . nvme format "$d" -f -s 0
nvme error-log "/dev/$c" -e 4 -o json >"$work/errors"
[ "$(jq '.errors[0].error_count' "$work/errors")" -gt 0 ] || fail "the error log has no entry: $(head -c 300 "$work/errors")"
is_live "$nqn" || fail "the controller is $(state "$nqn")"
cmp -n 4096 "$d" /dev/zero

step disconnect
nvme disconnect -n "$nqn"
eventually 10 test -z "$(controllers "$nqn")"
stop target
! grep -iE 'panic|goroutine ' "$work/target.err" || fail "the target panicked"
