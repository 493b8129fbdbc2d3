# Makes the machine's root one that systemd boots: our packages' files in their places
# as docs/operations.md says, the files of the scenario's folder $1, and none of the
# development machine's own services. image/init.sh runs it in that root.
# shellcheck shell=bash
set -eu
export PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C

rm -rf /etc/systemd/system /etc/init.d /etc/rc?.d /.dockerenv
mkdir -p /etc/systemd/system /etc/systemd/system-generators /etc/init.d /etc/rbd
ln -s /dev/null /etc/systemd/system-generators/postgresql-generator
ln -s /dev/null /etc/systemd/system/getty.target # the console is the runner's
ln -s /dev/null /etc/udev/rules.d/80-drivers.rules # hardware that nobody needs takes long
# Nothing that systemd does when /usr is a new one.
touch /etc/.updated /var/.updated

cp /usr/local/bin/rbd-target /usr/local/bin/rbd-initiator /usr/bin/
cp /vm/packaging/*.service /etc/systemd/system/
cp /vm/packaging/60-rbd.rules /etc/udev/rules.d/

cat >/etc/systemd/system/vmagent.service <<'EOF'
[Unit]
Description=Agent of the tests
DefaultDependencies=no
After=systemd-tmpfiles-setup.service
Conflicts=shutdown.target
Before=shutdown.target
[Service]
Environment=HOME=/root LC_ALL=C PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
ExecStart=/usr/local/bin/vmagent /dev/vport0p1
[Install]
WantedBy=sysinit.target
EOF
# /vm is there to the end.
mkdir /etc/systemd/system/vm.mount.d
printf '[Unit]\nDefaultDependencies=no\n' >/etc/systemd/system/vm.mount.d/to-the-end.conf

cp -r "$1"/. /
systemctl --quiet enable vmagent.service remote-fs.target
systemctl set-default --quiet multi-user.target
# shellcheck source=/dev/null
. "$1/setup"
