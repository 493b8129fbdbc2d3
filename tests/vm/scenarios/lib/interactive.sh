# Sourced by the shell of cmd/vmshell.
. /etc/bash.bashrc 2>/dev/null
PS1='vm:\w# '
run() { ROLE=single SCENARIO=$1 bash "/vm/scenarios/$1.sh"; }
cat <<'T'
A virtual machine with the host's files, read-only below an overlay. "exit" powers it off.
  run NAME                  runs a scenario of one machine:
T
ls /vm/scenarios/*.sh | grep -v /two- | sed 's#.*/#    #; s#\.sh$##' | column -c 100
cat <<'T'
  . lib/common.sh; pair     defines their functions; sets up the network and siw. "set +e" after that.
T
