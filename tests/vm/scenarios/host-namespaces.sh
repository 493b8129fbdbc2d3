# Namespaces are added, resized and removed while the host is connected: it sees each within two seconds.
#
# host: Linux nvme-rdma (siw)
# target: package target
# fabrics: rxe siw
. "$(dirname "$0")/lib/common.sh"
pair
truncate -s 16M "$work/disk.img"
vm_target 16 file "$nqn" 1 "$work/disk.img"
connect $rbd_addr "$nqn" -i 2
d=$(disk "$nqn" 1)

# soon CONDITION...: it must hold within two seconds
soon() { eventually 2 "$@"; }
is_size() { [ "$(blockdev --getsize64 "$1")" = "$2" ]; }
is_there() { find_disk "$nqn" "$1"; }
is_gone() { ! find_disk "$nqn" "$1"; }

step "grown, and what is new can be used"
truncate -s 48M "$work/disk.img"
tell resize "$nqn" 1
soon is_size "$d" $((48 << 20))
verify_io "$d" --rw=randwrite --bs=64k --iodepth=8 --offset=32M --size=8M
step "shrunk"
truncate -s 8M "$work/disk.img"
tell resize "$nqn" 1
soon is_size "$d" $((8 << 20))
refused . nvme read "$d" -s $((8 << 11)) -c 0 -z 512 -d "$work/back"

step "added"
tell add "$nqn" 7 $((4 << 20))
soon is_there 7
tell add "$nqn" 2 $((4 << 20))
soon is_there 2
verify_io "$(disk "$nqn" 2)" --rw=randrw --bs=4k --iodepth=8 --size=1M

step "the changed namespaces are in their log page once"
nvme changed-ns-list-log "/dev/$(controller "$nqn")"

step "removed, one of them under load"
fio --name=load --filename="$(disk "$nqn" 2)" --allow_file_create=0 --rw=randrw --bs=4k --iodepth=16 --ioengine=libaio --direct=1 --size=2M --time_based --runtime=20 >"$work/load.out" 2>&1 &
load=$!
progress "$(disk "$nqn" 2)"
tell remove "$nqn" 2
soon is_gone 2
eventually 20 gone $load
tell remove "$nqn" 7
soon is_gone 7

step "forty changes one after the other, under load on another namespace"
tell remove "$nqn" 1
truncate -s 32M "$work/disk.img"
tell file "$nqn" 1 "$work/disk.img"
d=$(disk "$nqn" 1)
verify_io "$d" --rw=randrw --bs=4k --iodepth=8 --size=2M --loops=2 &
load=$!
for i in $(seq 20); do
	tell add "$nqn" $((i % 5 + 2)) $((i << 20)) >/dev/null
	tell remove "$nqn" $((i % 5 + 2)) >/dev/null
done
tell add "$nqn" 9 $((3 << 20))
soon is_there 9
wait $load || fail "fio failed"
for n in 2 3 4 5 6; do soon is_gone $n; done
equal "$(blockdev --getsize64 "$(disk "$nqn" 9)")" $((3 << 20)) "the size of namespace 9"

step "the last one goes and comes back"
tell remove "$nqn" 9
tell remove "$nqn" 1
soon is_gone 1
is_live "$nqn"
tell add "$nqn" 1 $((2 << 20))
soon is_there 1
nvme disconnect -n "$nqn"
stop target
