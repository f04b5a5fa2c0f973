# The common start of every script: strict mode, the project's root and messages. Sourced, not run.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
stage=$(basename "$0")

# Stages go to stderr, so that stdout only has the requested output.
say() { printf '[%s] %s\n' "$stage" "$*" >&2; }

# die CODE MESSAGE
die() {
  local code=$1
  shift
  printf '[%s] error: %s\n' "$stage" "$*" >&2
  exit "$code"
}

# The comment at the top of a script is its help.
show_help() { awk 'NR == 1 { next } !/^#/ { exit } { sub(/^# ?/, ""); print }' "$0"; }

# Jobs of a build: one per core, but no more than memory has room for (a compiler takes up to 1.5 GiB).
build_jobs() {
  local cores room
  cores=$(nproc)
  room=$(awk '/^MemAvailable:/ { print int($2 / 1572864) }' /proc/meminfo)
  if ((room < 1)); then room=1; fi
  echo "${LOCKSTEP_JOBS:-$((cores < room ? cores : room))}"
}

# Makes later configures build with ccache, if available. ccache identifies a precompiled header by its contents, which
# include its definitions.
use_ccache() {
  if command -v ccache >/dev/null; then
    export CMAKE_CXX_COMPILER_LAUNCHER="env;CCACHE_SLOPPINESS=pch_defines,time_macros;ccache"
  fi
}

# Files of the project: tracked, and new ones that are not ignored. Arguments are path patterns.
project_files() { git -c safe.directory='*' -C "$root" ls-files --cached --others --exclude-standard -- "$@"; }
