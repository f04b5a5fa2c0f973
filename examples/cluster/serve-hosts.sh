#!/usr/bin/env bash
# Usage: serve-hosts.sh HOSTFILE --model DIR [OPTION of lockstep serve…]
#
# A server on the first host of HOSTFILE, which is this one, with a rank for each slot of all hosts. When a host is lost,
# the server goes on with the ranks of the others, and open requests with them; a minute later it tries all hosts again.
# Before a host is taken away, run leave-host.sh there: then nobody waits.
set -euo pipefail
hostfile=$1
shift

ranks=$(awk -F'slots=' '!/^#/ && NF { sum += NF > 1 ? $2 : 1 } END { print sum }' "$hostfile")
folder=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
exec "${LOCKSTEP:-build/release/bin/lockstep}" serve --tp "$ranks" \
  --launcher "'$folder/ranks-on-hosts.sh' '$hostfile' {ranks} --without={lost_hosts}" "$@"
