# A namespace is removed and another put in its place, again and again under I/O: what is read is never the other's data.
#
# host: Linux nvme-rdma (siw)
# target: package target
# fabrics: rxe siw
# kernel-log: I/O error|identifiers changed
. "$(dirname "$0")/lib/common.sh"
pair
truncate -s 2M "$work/a" "$work/b"
tr '\0' a <"$work/a" >"$work/a.img"
tr '\0' b <"$work/b" >"$work/b.img"
vm_target 16 file "$nqn" 1 "$work/a.img"
connect $rbd_addr "$nqn" -i 2
disk "$nqn" 1
for i in $(seq 5); do
	for x in b a; do
		fio --name=load --filename="$(disk "$nqn" 1)" --allow_file_create=0 --rw=randread --bs=4k --iodepth=8 --ioengine=libaio --direct=1 --time_based --runtime=10 >/dev/null 2>&1 &
		load=$!
		progress "$(disk "$nqn" 1)"
		tell remove "$nqn" 1
		tell file "$nqn" 1 "$work/$x.img"
		eventually 20 eval "[ \"\$(head -c 1 \"\$(find_disk $nqn 1)\")\" = $x ]"
		kill $load 2>/dev/null || true
		wait $load || true
		d=$(disk "$nqn" 1)
		cmp "$d" "$work/$x.img"
	done
done
nvme disconnect -n "$nqn"
stop target
