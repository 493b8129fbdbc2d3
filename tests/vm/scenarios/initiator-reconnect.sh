# The target's port goes and comes back, and the wire is cut, again and again under load: a pause, and the data is right.
#
# host: rbd-initiator
# target: Linux nvmet-rdma (siw)
# fabrics: rxe siw
. "$(dirname "$0")/lib/common.sh"
pair
truncate -s 16M "$work/disk"
kernel_target $kernel_addr
kernel_subsystem "$nqn"
kernel_namespace "$nqn" 1 "$work/disk"
rbd_connect -n "$nqn" -k 2 -c 1 -i 2

log=$work/initiator.err
times() { grep -c -- "$1" "$log" || true; }
happened() { [ "$(times "$1")" -ge "$2" ]; }
close_port() { rm "$nvmet/ports/1/subsystems/$nqn"; }
open_port() { ln -s "$nvmet/subsystems/$nqn" $nvmet/ports/1/subsystems/; }

load() {
	fio --name=load --ioengine=nbd --uri="$(uri 1)" --rw=randrw --bs=4k --iodepth=16 --size=8M --rate_iops=200,200 --io_size=80M \
		--verify=crc32c --verify_fatal=1 --verify_state_save=0 >"$work/fio.out" 2>&1 &
	load=$!
}

load
losses=0
ways=(port wire port port wire)
[ $FABRIC = iwarp ] || ways=(port port port) # both are at the same end of the wire
for how in "${ways[@]}"; do
	losses=$((losses + 1))
	sleep 2
	kill -0 $load || { cat "$work/fio.out"; fail "fio has ended"; }
	step "loss $losses: $how"
	if [ $how = wire ]; then ip link set wire down; else close_port; fi
	eventually 20 happened 'connection lost' $losses
	sleep 1
	if [ $how = wire ]; then ip link set wire up; else open_port; fi
	eventually 30 happened 'msg=reconnected' $losses
done
eventually 90 gone $load
wait $load || { cat "$work/fio.out"; fail "fio has seen an error"; }
equal "$(times 'connection lost')" $losses "the number of connections that were lost"

step "what was written is in the file"
verify_nbd 1 --rw=randwrite --bs=4k --iodepth=16 --size=1M
qemu-img compare -f raw -F raw "$(uri 1)" "$work/disk"

step "another disk under the same number is not used"
ns=$nvmet/subsystems/$nqn/namespaces/1
close_port
eventually 20 happened 'connection lost' $((losses + 1))
echo 0 >"$ns/enable"
was=$(cat "$ns/device_uuid")
echo 12345678-1234-1234-1234-123456789012 >"$ns/device_uuid"
echo 1 >"$ns/enable"
open_port
eventually 30 happened 'namespace not used.*UUID' 1
refused 'Input/output error' qemu-io -f raw -c 'write 0 4k' "$(uri 1)"

step "the right one is"
echo 0 >"$ns/enable"
echo "$was" >"$ns/device_uuid"
echo 1 >"$ns/enable"
eventually 20 qemu-io -f raw -c 'read 0 4k' "$(uri 1)"
verify_nbd 1 --rw=randrw --bs=4k --iodepth=16 --size=1M
grep -E 'level=(WARN|ERROR|INFO)' "$log" | cut -c1-200 | tail -n 20
stop initiator
