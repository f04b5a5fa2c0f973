#!/usr/bin/env bash
# Usage: two-jobs.sh CORES CORES OPTION… -- OPTION…
#
# Two jobs of `lockstep generate` side by side on one host, each on cores of its own (lists such as 0-3 or 0,2) with as
# many threads as it has cores, so that neither slows the other down by more than the memory they share. RANKS ranks
# each, 1 by default. On Neuron devices give each job a list of its own with --neuron-cores as well.
# Ends with 0 when both do, else with the code of the first that failed.
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
