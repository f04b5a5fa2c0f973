#!/usr/bin/env bash
# Usage: mpirun-hosts.sh HOSTFILE [OPTION of lockstep generate…]
#
# One rank on each host of HOSTFILE, with all cores of its host. The program and the model must have the same path on
# every host. NETWORK (a subnet, for example 10.77.0.0/24) is the network between the hosts; without it Open MPI and
# lockstep each choose one, which works if hosts have one network.
set -euo pipefail
hostfile=$1
shift

lockstep=${LOCKSTEP:-build/release/bin/lockstep}
ranks=$(awk -F'slots=' '!/^#/ && NF > 1 { sum += $2 } END { print sum }' "$hostfile")
network=()
if [[ -n ${NETWORK:-} ]]; then
  # mpirun's own daemons, then MPI's messages, then lockstep's control plane.
  network=(--mca oob_tcp_if_include "$NETWORK" --mca btl_tcp_if_include "$NETWORK")
  set -- --interface "$NETWORK" "$@"
fi

# Without --bind-to none Open MPI gives each of one or two ranks a single core.
exec mpirun --hostfile "$hostfile" -n "$ranks" --map-by node --bind-to none "${network[@]}" "$lockstep" generate "$@"
