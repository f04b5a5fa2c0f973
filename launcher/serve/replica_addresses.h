// The addresses of an engine's replicas, of which clients learn from the first one.
//
//   replica 0     the command's own: a Unix socket, or TCP
//   replica k     SOCKET-k beside that socket, on the same host; otherwise a free port of TCP, on the network between
//                 the hosts, with a secret that replica 0 has made
#pragma once

#include <vector>

#include "engine/rpc/server.h"
#include "lockstep/group.h"
#include "runtime/core/result.h"

namespace lockstep::launcher {

struct ReplicaAddresses {
  rpc::RpcAddress own;                  // on rank 0 of a replica
  std::vector<rpc::RpcAddress> others;  // on rank 0 of replica 0: of the others, by number
};

/// Agrees on the addresses between all replicas. `first`: replica 0's own, on its rank 0. Fails everywhere when a
/// replica finds no address. @collective @blocking
Result<ReplicaAddresses> agree_on_addresses(Group& group, const rpc::RpcAddress& first);

}  // namespace lockstep::launcher
