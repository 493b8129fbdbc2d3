#!/bin/busybox sh
# The guest's first program: mounts the host's files under an overlay, makes them
# the root, and hands over to the agent, or to a shell if the kernel's command line
# has rbd.shell, or to systemd if it has rbd.boot=FOLDER.
/bin/busybox --install -s /bin
mount -t proc none /proc
mount -t sysfs none /sys
mount -t devtmpfs none /dev
for m in $(cat /order); do insmod "/modules/$m"; done
give_up() { echo "init: $1"; poweroff -f; }

opts=trans=virtio,version=9p2000.L,msize=512000
mkdir -p /host /rw /r
mount -t 9p -o $opts,ro,cache=loose host /host || give_up "no 9p share of the host's files"
mount -t tmpfs none /rw
mkdir /rw/upper /rw/work
mount -t overlay -o lowerdir=/host,upperdir=/rw/upper,workdir=/rw/work overlay /r || give_up "no overlay"
mount -t proc none /r/proc
mount -t sysfs none /r/sys
mount -t devtmpfs none /r/dev
mount -t tmpfs none /r/run
mount -t tmpfs none /r/tmp
chmod 1777 /r/tmp
mkdir -p /r/dev/shm /r/dev/pts
ln -s /proc/self/fd /r/dev/fd
mount -t tmpfs none /r/dev/shm
mount -t devpts none /r/dev/pts

# /vm: the runner's folder, writable by all machines of a run at once.
# /lib/modules: those of this kernel.
mkdir -p /r/vm /r/run/modules
mount -t 9p -o $opts,cache=none share /r/vm || give_up "no 9p share of the run's folder"
mount -t 9p -o $opts,ro,cache=loose modules /r/run/modules || give_up "no 9p share of the modules"
rm -rf /r/lib/modules
mkdir -p /r/lib/modules
mount --bind /r/run/modules /r/lib/modules
cp /bin/busybox /r/run/busybox
cp /r/vm/bin/* /r/usr/local/bin/

shell=
grep -q rbd.shell /proc/cmdline && shell=1
boot=$(sed -n 's/.* rbd.boot=\([^ ]*\).*/\1/p' /proc/cmdline)
umount /proc /sys
if [ -n "$boot" ]; then
	chroot /r /bin/bash /vm/scenarios/lib/boot.sh "/vm/scenarios/$boot" || give_up "no root for systemd"
	exec switch_root /r /lib/systemd/systemd
fi
# The shell stays the first program, because it reaps the processes left behind.
if [ -n "$shell" ]; then
	run='export TERM=${TERM:-linux}; cd /vm/scenarios; setsid -c bash --rcfile /vm/scenarios/lib/interactive.sh -i </dev/ttyS0 >/dev/ttyS0 2>&1'
else
	run='/usr/local/bin/vmagent /dev/vport0p1'
fi
exec switch_root /r /bin/bash -c "
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C
ip link set lo up
$run
sync
/run/busybox poweroff -f"
