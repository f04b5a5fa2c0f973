#!/usr/bin/env bash
# Usage: gpus-mpirun.sh HOSTFILE [OPTION of lockstep generate…]
#
# As many ranks on each host of HOSTFILE as it has slots, a GPU each: "node0 slots=8". The program and the model must have
# the same path on every host. NETWORK (an interface, for example eth0) is the network between several hosts.
set -euo pipefail
hostfile=$1
shift

lockstep=${LOCKSTEP:-build/release/bin/lockstep}
ranks=$(awk -F'slots=' '!/^#/ && NF > 1 { sum += $2 } END { print sum }' "$hostfile")
network=()
if [[ -n ${NETWORK:-} ]]; then
  # mpirun's own daemons, then MPI's messages, NCCL's first connections, lockstep's control plane.
  network=(--mca oob_tcp_if_include "$NETWORK" --mca btl_tcp_if_include "$NETWORK" -x NCCL_SOCKET_IFNAME="$NETWORK")
  set -- --interface "$NETWORK" "$@"
fi

# Unbound ranks may use every core of their host; lockstep divides those near the GPUs between them.
exec mpirun --hostfile "$hostfile" -n "$ranks" --map-by slot --bind-to none "${network[@]}" \
  "$lockstep" generate --backend cuda "$@"
