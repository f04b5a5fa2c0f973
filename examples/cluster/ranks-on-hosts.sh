#!/usr/bin/env bash
# Usage: ranks-on-hosts.sh HOSTFILE RANKS [--without=HOST,…] PROGRAM [ARGUMENT…]
#
# RANKS ranks of PROGRAM on the hosts of HOSTFILE, one after the other, by Open MPI's mpirun; not on the hosts that are
# named. The first host of HOSTFILE is this one. For --launcher of lockstep serve (serve-hosts.sh):
#
#   --launcher 'ranks-on-hosts.sh hosts.txt {ranks} --without={lost_hosts}'
#
# NETWORK (a subnet, for example 10.77.0.0/24) is the network between the hosts; without it Open MPI chooses.
set -euo pipefail
hostfile=$1 ranks=$2 lost=
shift 2
if [[ $1 == --without=* ]]; then
  lost=${1#--without=}
  shift
fi

hosts=$(awk -F'[ \t]+(slots=)?' -v lost=",$lost," \
  '!/^#/ && NF && !index(lost, "," $1 ",") { printf "%s%s:%d", comma, $1, $2 ? $2 : 1; comma = "," }' "$hostfile")
network=()
if [[ -n ${NETWORK:-} ]]; then
  network=(--mca oob_tcp_if_include "$NETWORK" --mca btl_tcp_if_include "$NETWORK")
fi
exec mpirun --host "$hosts" -n "$ranks" --bind-to none "${network[@]}" "$@"
