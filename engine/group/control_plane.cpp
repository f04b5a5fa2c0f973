#include "engine/group/control_plane.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "engine/group/agreement.h"
#include "runtime/core/secret.h"
#include "transport/handshake.h"
#include "transport/network.h"

namespace lockstep::group {

Result<ControlPlane> find_control_plane(const std::string& network, transport::Bootstrap& bootstrap, const Log& log) {
  ControlPlane plane;
  const auto wanted = network.empty() ? std::nullopt : std::optional(network);
  LOCKSTEP_TRY(plane.secret, value_of_rank_0(bootstrap, bootstrap.rank() == 0 ? random_secret() : ""));
  LOCKSTEP_TRY(const std::vector<transport::RankPlace> places, bootstrap.places());
  if (places.size() == 1 || (device::on_one_host(places) && !wanted)) {
    plane.address = plane.own_address = transport::loopback_address();
    return plane;
  }
  LOCKSTEP_TRY(const auto lines, bootstrap.exchange(transport::to_line(transport::own_interfaces())));
  std::vector<transport::HostNetwork> hosts;  // by node; the coordinator's is the first
  for (const transport::RankPlace& place : places) {
    if (place.node < std::ssize(hosts)) continue;
    LOCKSTEP_TRY(auto interfaces, transport::parse_interfaces(lines.at(static_cast<size_t>(place.rank))));
    hosts.push_back({.host = place.host, .interfaces = std::move(interfaces)});
  }
  LOCKSTEP_TRY(const auto chosen, transport::choose_network(hosts, wanted));
  plane.address = transport::to_text(chosen.front().address);
  const auto own = static_cast<size_t>(places.at(static_cast<size_t>(bootstrap.rank())).node);
  plane.own_address = transport::to_text(chosen.at(own).address);
  std::vector<std::string> sides;
  for (size_t node = 0; node < hosts.size(); ++node) {
    const std::string interface = chosen[node].name.empty() ? "" : fmt::format(" ({})", to_text(chosen[node]));
    sides.push_back(hosts[node].host + interface);
  }
  for (const transport::RankPlace& place : places) plane.rank_sides.push_back(sides[static_cast<size_t>(place.node)]);
  if (bootstrap.rank() == 0) log.info("control plane: {}", fmt::join(sides, ", "));
  return plane;
}

Result<void> check_reach(const ControlPlane& plane, int rank, const actors::Address& coordinator, Duration limit) {
  if (plane.rank_sides.empty()) return ok();
  const auto reached = transport::connect_to_rank_0(coordinator.host, coordinator.port, plane.secret,
                                                    {transport::ConnectionPurpose::kCheck, rank}, limit);
  if (reached.has_value()) return ok();
  return Error{ErrorKind::kUnavailable,
               fmt::format("[engine/group] rank {}: cannot reach the coordinator of rank 0 at {} on {} from {}: found "
                           "'{}', expected a connection within {:.3g} s; name the network between the hosts with "
                           "--interface NAME, ADDRESS or SUBNET, and open its ports",
                           rank, transport::with_port(coordinator.host, coordinator.port), plane.rank_sides.front(),
                           plane.rank_sides.at(static_cast<size_t>(rank)), reached.error().message, to_seconds(limit)),
               rank};
}

}  // namespace lockstep::group
