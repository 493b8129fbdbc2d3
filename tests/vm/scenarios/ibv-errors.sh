# What users are told when an RDMA device can't be used: the cause, and the remedy.
#
# host: rbd-initiator (rdma://)
# target: rbd-target (rdma://)
. "$(dirname "$0")/lib/common.sh"
. "$lib/ibv.sh"
serve_on() { rbd-target serve --allow-any-host -e ram:1M,nqn="$nqn" -l "$1"; }
connect_to() { rbd-initiator connect -n "$nqn" -a "$1"; }
lib=/usr/lib/x86_64-linux-gnu

step "no device"
refused 'has no RDMA device.*rdma link add' serve_on rdma://$kernel_addr
pair rxe
rbd-target devices
rbd-target devices -o json >"$work/devices.json"
equal "$(jq -r '.[1].devices[0].ports[0] | .state + " " + .link_layer' "$work/devices.json")" "ACTIVE Ethernet" "the port"
jq -e '.[1].devices[0].ports[0].gids[] | select(.address == "10.99.0.1" and .type == "RoCE v2")' "$work/devices.json" >/dev/null || fail "the GID of $kernel_addr is not listed"

step "addresses that are on no device"
refused "no RDMA device has the address 10.9.9.9" serve_on rdma://10.9.9.9
refused "no RDMA device" connect_to rdma://127.0.0.1
refused 'route|no RDMA device' connect_to rdma://203.0.113.1

step "parameters"
refused 'unknown parameter "gidindex"' serve_on "rdma://$kernel_addr?gidindex=1"
refused 'address of device rxe0, not mlx5_0' serve_on "rdma://$kernel_addr?device=mlx5_0"
refused 'no RDMA device "mlx5_0", only: rxe0' serve_on "rdma://:4420?device=mlx5_0"
refused 'no GID 200' serve_on "rdma://:4420?device=rxe0&gid-index=200"
refused 'tos.*0 to 255' connect_to "rdma://$kernel_addr?tos=300"
refused 'nobody listens' connect_to "rdma://$kernel_addr"

step "a device, a GID and a type of service"
gid=$(jq -r '.[1].devices[0].ports[0].gids[] | select(.address == "10.99.0.1") | .index' "$work/devices.json")
where=(env)
start target rbd-target serve --allow-any-host -e "ram:16M,nqn=$nqn" -l "rdma://:4420?device=rxe0&gid-index=$gid&tos=32"
grep -q "^listening rdma://$kernel_addr:4420" "$work/target.out" || fail "the target did not start"
start initiator rbd-initiator connect -n "$nqn" -a "rdma://$kernel_addr?device=rxe0&tos=32"
verify_nbd 1 --rw=randrw --bs=4k --iodepth=4 --size=256k
stop initiator

step "the memory-lock limit, for a user"
mkdir -m 777 "/tmp/user.$$"
refused 'memory-lock limit is 64 KiB.*LimitMEMLOCK' setpriv --reuid 65534 --clear-groups --inh-caps=-all --bounding-set=-all \
	bash -c "ulimit -l 64; cd /tmp; RUNTIME_DIRECTORY=/tmp/user.$$ timeout 20 rbd-initiator connect -I $hostid -q $hostnqn -n $nqn -a rdma://$kernel_addr"
stop target

step "permission"
chmod 600 /dev/infiniband/rdma_cm
user=(setpriv --reuid 65534 --clear-groups)
refused 'no permission to use /dev/infiniband/rdma_cm' "${user[@]}" rbd-target serve --allow-any-host -e ram:1M,nqn="$nqn" -l rdma://$kernel_addr
"${user[@]}" rbd-target devices >"$work/devices" 2>&1
grep 'no permission to use /dev/infiniband/rdma_cm' "$work/devices" || fail "devices does not say it: $(cat "$work/devices")"
chmod 666 /dev/infiniband/rdma_cm

step "without rdma-core, and without its driver"
mount --bind /dev/null $lib/libibverbs.so.1
defer umount $lib/libibverbs.so.1
rbd-target devices | tee "$work/devices"
grep -q 'apt install libibverbs1 librdmacm1 ibverbs-providers' "$work/devices" || fail "the remedy is not told"
umount $lib/libibverbs.so.1
