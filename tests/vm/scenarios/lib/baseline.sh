# What the kernel's host and target do with each other on the device of the scenario.
# shellcheck shell=bash
truncate -s 64M "$work/disk"
kernel_target $kernel_addr
kernel_subsystem "$nqn"
kernel_namespace "$nqn" 1 "$work/disk"
step discover
nvme discover -t rdma -a $kernel_addr -s 4420 -o json >"$work/discover.json"
grep -q "$nqn" "$work/discover.json" || fail "not listed: $(cat "$work/discover.json")"
step connect
connect $kernel_addr "$nqn"
d=$(disk "$nqn" 1)
step "verify $d"
verify_io "$d" --rw=randrw --bs=4k --iodepth=16 --size=8M
verify_io "$d" --rw=write --bs=128k --iodepth=4 --size=16M
