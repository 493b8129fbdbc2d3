# Subsystems come and go while hosts read the discovery log, and while one stays connected to it.
#
# host: Linux nvme-rdma (siw)
# target: package target
# fabrics: rxe siw
. "$(dirname "$0")/lib/common.sh"
pair
vm_target 16 add "$nqn" 1 $((1 << 20))
discovery=nqn.2014-08.org.nvmexpress.discovery
step "a host stays connected to the discovery subsystem"
connect $rbd_addr "$discovery" -k 10
c=$(controller "$discovery")
log() { nvme get-log "/dev/$c" -i 0x70 -l 16 -b | od -An -tu8 | xargs; } # generation, number of records
before=$(log)
tell add nqn.2026-11.io.rbd:new 1 $((1 << 20))
eventually 2 eval '[ "$(log)" != "$before" ]'
echo "generation and records: $before, then $(log)"
step "ten subsystems come and go, and each log read meanwhile is whole"
(for i in $(seq 10); do
	tell add nqn.2026-11.io.rbd:s"$i" 1 $((1 << 20))
	[ $((i % 2)) = 0 ] || tell remove nqn.2026-11.io.rbd:s"$i" 1
done) >"$work/changes.err" 2>&1 &
changes=$!
reads=0
while kill -0 $changes 2>/dev/null; do
	nvme discover -t rdma -a $rbd_addr -s 4420 -o json --hostnqn="$hostnqn" --hostid="$hostid" >"$work/log.json"
	jq -e '[.records[] | select(.subtype == "nvme subsystem") | .subnqn] | length == (unique | length) and index("'"$nqn"'") != null' "$work/log.json" >/dev/null ||
		fail "this log is not whole: $(cat "$work/log.json")"
	reads=$((reads + 1))
done
wait $changes || fail "the changes failed"
echo "$reads logs were read meanwhile"
nvme disconnect -n "$discovery"
stop target
