# Discovery of the kernel's subsystems; refusals are told in words.
#
# host: rbd-initiator
# target: Linux nvmet-rdma (siw)
# fabrics: rxe siw
# short: yes
. "$(dirname "$0")/lib/common.sh"
pair
truncate -s 16M "$work/disk"
kernel_target $kernel_addr
for i in 1 2 3; do
	kernel_subsystem nqn.2026-11.io.rbd:s$i
	kernel_namespace nqn.2026-11.io.rbd:s$i 1 "$work/disk"
done
identity=(-q "$hostnqn" -I "$hostid")
step discover
"${where[@]}" rbd-initiator discover -a $scheme://$kernel_addr "${identity[@]}" | tee "$work/list"
for i in 1 2 3; do grep -q "nqn.2026-11.io.rbd:s$i" "$work/list" || fail "subsystem s$i is not listed"; done
"${where[@]}" rbd-initiator discover -a $scheme://$kernel_addr -s 4420 -t rdma -o json "${identity[@]}" >"$work/json"
equal "$(jq -r '.records[] | select(.subnqn | startswith("nqn.2026")) | "\(.trtype) \(.adrfam) \(.traddr) \(.trsvcid)"' "$work/json" | sort -u)" \
	"rdma ipv4 $kernel_addr 4420" "the address in the log"

step refusals
refused 'nowhere' "${where[@]}" rbd-initiator connect -a $scheme://$kernel_addr -n nqn.2026-11.io.rbd:nowhere "${identity[@]}"
echo 0 >$nvmet/subsystems/nqn.2026-11.io.rbd:s1/attr_allow_any_host
refused 'does not allow this host' "${where[@]}" rbd-initiator connect -a $scheme://$kernel_addr -n nqn.2026-11.io.rbd:s1 "${identity[@]}"
refused "$kernel_addr:4421.*(refused|nobody listens)" "${where[@]}" rbd-initiator connect -a $scheme://$kernel_addr -s 4421 -n "$nqn" "${identity[@]}"
"${where[@]}" rbd-initiator discover -a $scheme://$kernel_addr "${identity[@]}" >"$work/list"
! grep -q nqn.2026-11.io.rbd:s1 "$work/list" || fail "the log lists what this host may not use"
