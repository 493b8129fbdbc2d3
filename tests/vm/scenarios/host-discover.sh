# Discovery lists the subsystems that a host may use; refusals of strangers are final.
#
# host: Linux nvme-rdma (siw)
# target: rbd-target
# fabrics: rxe siw
# short: yes
. "$(dirname "$0")/lib/common.sh"
pair
stranger=nqn.2014-08.org.nvmexpress:uuid:99999999-2222-3333-4444-555555555555
start target rbd-target serve -l $scheme://$rbd_addr:4420 --allow-host "$hostnqn" \
	-e ram:8M,nqn="$nqn" -e ram:8M,nqn="$nqn" -e ram:16M,nqn=nqn.2026-11.io.rbd:other

discover() { nvme discover -t rdma -a $rbd_addr -s 4420 -o json --hostnqn="$1" --hostid="$hostid"; }

step "the allowed host sees both subsystems"
discover "$hostnqn" >"$work/log.json"
jq -r '.records[] | select(.subtype == "nvme subsystem") | "\(.subnqn) \(.trtype) \(.traddr) \(.trsvcid)"' "$work/log.json" | sort >"$work/listed"
cat "$work/listed"
printf '%s\n' "$nqn rdma $rbd_addr 4420" "nqn.2026-11.io.rbd:other rdma $rbd_addr 4420" | diff - "$work/listed" || fail "the list differs"

step "a host that is not allowed sees none, and can't connect"
discover "$stranger" >"$work/stranger.json" || true
! grep -q io.rbd "$work/stranger.json" || fail "a stranger sees: $(cat "$work/stranger.json")"
refused . nvme connect -t rdma -a $rbd_addr -s 4420 -n "$nqn" --hostnqn="$stranger" --hostid="$hostid"
logged 5 "$work/target.err" "$stranger"
[ -z "$(controllers "$nqn")" ] || fail "the host keeps trying after a refusal"

step "a subsystem that is not there"
refused . nvme connect -t rdma -a $rbd_addr -s 4420 -n nqn.2026-11.io.rbd:nowhere --hostnqn="$hostnqn" --hostid="$hostid"

step "connect-all finds its way from the discovery log"
defer nvme disconnect -n "$nqn"
defer nvme disconnect -n nqn.2026-11.io.rbd:other
nvme connect-all -t rdma -a $rbd_addr -s 4420 --hostnqn="$hostnqn" --hostid="$hostid"
for at in "$nqn 1" "$nqn 2" "nqn.2026-11.io.rbd:other 1"; do
	disk $at # the two words are two arguments
done
stop target
