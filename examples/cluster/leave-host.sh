#!/usr/bin/env bash
# Usage: leave-host.sh [SECONDS]
#
# Run on a host that is about to be taken away, and not the server's own: tells the ranks of a server here to leave, and
# waits until they have gone, at most SECONDS (default 120). The server goes on with the ranks of its other hosts.
#
#   Slurm        srun --jobid=4711 --overlap --nodelist=b leave-host.sh      before node b is drained or preempted
#   Kubernetes   preStop of the worker's container, with a longer terminationGracePeriodSeconds
#   a spot host  when its provider announces its end
set -euo pipefail
deadline=$((SECONDS + ${1:-120}))

pkill -TERM -x lockstep || { echo "leave-host: no ranks here" >&2; exit 0; }
while pgrep -x lockstep >/dev/null; do
  if ((SECONDS >= deadline)); then
    echo "leave-host: ranks are still here: $(pgrep -x lockstep | xargs)" >&2
    exit 1
  fi
  sleep 0.5
done
