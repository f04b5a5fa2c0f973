// Addresses and the secret of the control plane. Addresses are on loopback for one host, otherwise on the network
// between the hosts (transport/network.h has the rule).
#pragma once

#include <string>
#include <vector>

#include "actors/session.h"
#include "runtime/core/clock.h"
#include "runtime/core/log.h"
#include "transport/bootstrap.h"

namespace lockstep::group {

/// Rank 0's address, and the secret of this run: made by rank 0, carried to the other ranks by the `Bootstrap` alone.
struct ControlPlane {
  std::string address = "127.0.0.1";      // rank 0 listens on it
  std::string own_address = "127.0.0.1";  // of this rank's host on the same network
  std::vector<std::string> rank_sides;    // by rank: "node1 (eth0 10.1.0.6/24)"; empty on loopback
  std::string secret;                     // proved at the start of each connection (transport/handshake.h)
};

/// Chooses the addresses by the rule, or by the name, address or subnet `network`; rank 0 logs the choice when there
/// are several hosts. Fails on every rank as `transport::choose_network`. @collective @blocking
Result<ControlPlane> find_control_plane(const std::string& network, transport::Bootstrap& bootstrap, const Log& log);

/// Checks that this rank can connect to the coordinator and that both hold the secret. Fails with `kUnavailable` within
/// `limit`, naming both ends and the flag that chooses another network. @blocking
Result<void> check_reach(const ControlPlane& plane, int rank, const actors::Address& coordinator, Duration limit);

}  // namespace lockstep::group
