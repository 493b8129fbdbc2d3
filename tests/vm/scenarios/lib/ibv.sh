# Programs that use RDMA devices through rdma-core.
# shellcheck shell=bash

# conformance KIND: the suite that every provider passes (verbs/verbstest), on the
# kernel's device of that kind.
conformance() {
	pair "$1"
	ip -6 addr add fd99::1/64 dev wire nodad
	sleep 1 # the device learns of the address
	RBD_IBV_KIND=$1 RBD_IBV_LISTEN="rdma://$kernel_addr" RBD_IBV_LISTEN6="rdma://[fd99::1]" \
		conformance.test -test.v -test.timeout 20m -test.run TestConformance >"$work/conformance.out" 2>&1 || {
		grep -vE '^ *(=== |--- PASS)' "$work/conformance.out" | head -c 20000
		fail "the suite does not pass on $1"
	}
	grep -E '^    case_|^ *--- SKIP' "$work/conformance.out" || true
	echo "$(grep -c '^    --- PASS' "$work/conformance.out") cases pass"
}

# ibv_target ARG...: our target on the kernel's RDMA device, open to any host.
ibv_target() {
	local scheme=rdma rbd_addr=$kernel_addr
	where=(env)
	rbd_target "$@"
}

# ibv_connect ADDR ARG...: our initiator on the kernel's RDMA device.
ibv_connect() {
	local addr=$1
	shift
	where=(env)
	start initiator rbd-initiator connect -a "rdma://$addr" "$@"
	grep -q '^nbd' "$work/initiator.out" || fail "the initiator did not start"
}

# ibv_pair KIND: both of our programs on the same device.
ibv_pair() {
	pair "$1"
	ibv_target -e "ram:64M,nqn=$nqn" -e "ram:16M,nqn=$nqn,ro"
	# Nothing has been written yet, so that this is what the target has registered.
	huge=$(awk '/^AnonHugePages/ { n += $2 } END { print n }' "/proc/${pid[target]}/smaps")
	[ "$huge" -ge 49152 ] || fail "of 64 MiB of buffers, $huge KiB are in huge pages"
	rbd-initiator discover -a "rdma://$kernel_addr" | tee "$work/discovered"
	grep -q "$nqn" "$work/discovered" || fail "the subsystem was not discovered"
	ibv_connect $kernel_addr -n "$nqn" -i 2
	for bs in 512 4k 128k; do
		step "$bs"
		verify_nbd 1 --rw=randrw --bs=$bs --iodepth=32 --size=$([ $bs = 128k ] && echo 16M || echo 1M)
	done
	verify_nbd 1 --rw=write --bs=1m --iodepth=4 --size=16M
	step "a disconnect of the target is an end of the connection"
	stop initiator
	logged 10 "$work/target.err" 'host disconnected'
	stop target
}

# load: fio on the first namespace, in the background, writing and reading back.
load() {
	fio --name=load --ioengine=nbd --uri="$(uri 1)" --rw=randrw --bs=4k --iodepth=16 --size=8M --loops=1000 --time_based --runtime="$1" \
		--verify=crc32c --verify_fatal=1 --verify_state_save=0 --do_verify=0 >"$work/load.out" 2>"$work/load.err" &
	load=$!
	defer eval "kill $load 2>/dev/null"
}

# load_ends: the load must end without an error.
load_ends() { wait $load || { cat "$work/load.out" "$work/load.err"; fail "the load saw errors"; }; }

# ibv_removal KIND: the device goes under load, and comes back; then it goes and the
# user gives up.
ibv_removal() {
	pair "$1"
	ibv_target -e "ram:64M,nqn=$nqn"
	ibv_connect $kernel_addr -n "$nqn" -i 2 -c 2 -l 120
	load 60
	sleep 5
	step "rdma link delete"
	timeout 30 rdma link delete "$1"0 || fail "the device can't be removed while the programs use it"
	kill -0 "${pid[target]}" || fail "the target ended"
	kill -0 "${pid[initiator]}" || fail "the initiator ended"
	logged 20 "$work/target.err" 'device was removed'
	logged 20 "$work/initiator.err" 'device was removed'
	rbd-target devices
	step "rdma link add: the disk goes on"
	rdma link add "$1"0 type "$1" netdev wire
	logged 60 "$work/initiator.err" 'reconnected'
	load_ends
	verify_nbd 1 --rw=randrw --bs=4k --iodepth=16 --size=1M
	step "rdma link delete again, and SIGTERM"
	load 60
	sleep 5
	timeout 30 rdma link delete "$1"0 || fail "the device can't be removed a second time"
	kill -TERM "${pid[initiator]}"
	eventually 20 gone "${pid[initiator]}" # with an error: its target is away
	! wait $load || fail "the load did not notice"
	step "rdma link add"
	rdma link add "$1"0 type "$1" netdev wire
	eventually 30 rbd-initiator discover -a "rdma://$kernel_addr"
	ibv_connect $kernel_addr -n "$nqn" -i 2
	verify_nbd 1 --rw=randrw --bs=4k --iodepth=16 --size=1M
	stop initiator
	stop target
}
