#!/usr/bin/env bash
# Usage: two-jobs.sh CORES CORES OPTION… -- OPTION…
#
# Two concurrent jobs of `lockstep generate` on one host, each on separate cores (lists such as 0-3 or 0,2) with one
# thread per core, so that they compete only for memory bandwidth. RANKS ranks each, 1 by default. On Neuron devices,
# also give each job a separate list with --neuron-cores. The exit code is 0 if both succeed, else that of the first
# that failed.
set -euo pipefail
usage() {
  sed -n "2s/^# //p" "$0" >&2
  exit 2
}
[[ $# -ge 4 ]] || usage

lockstep=${LOCKSTEP:-build/release/bin/lockstep}
cores=("$1" "$2")
shift 2

first=()
while [[ $# -gt 0 && $1 != -- ]]; do
  first+=("$1")
  shift
done
[[ $# -gt 0 ]] || usage
shift # --

start() { # CORES OPTION…
  local list=$1
  shift
  exec mpirun -n "${RANKS:-1}" --bind-to none taskset -c "$list" "$lockstep" generate "$@"
}

(start "${cores[0]}" "${first[@]}") &
one=$!
(start "${cores[1]}" "$@") &
two=$!
trap 'kill "$one" "$two" 2>/dev/null || true' INT TERM
code=0
wait "$one" || code=$?
wait "$two" || code=$((code == 0 ? $? : code))
exit "$code"
