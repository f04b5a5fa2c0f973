#include "runtime/device/hosts.h"

#include <algorithm>
#include <limits>

#include "runtime/core/check.h"

namespace lockstep::device {

int Hosts::rails() const {
  size_t fewest = std::numeric_limits<size_t>::max();
  for (const Host& host : hosts) fewest = std::min(fewest, host.ranks.size());
  return hosts.empty() ? 0 : static_cast<int>(fewest);
}

std::vector<int> Hosts::rail(int number) const {
  std::vector<int> ranks;
  for (const Host& host : hosts) ranks.push_back(host.ranks[static_cast<size_t>(number)]);
  return ranks;
}

Hosts hosts_from(std::span<const RankPlace> places) {
  Hosts hosts;
  for (const RankPlace& place : places) {
    if (place.node == hosts.count()) hosts.hosts.push_back({.name = place.host, .ranks = {}});
    LOCKSTEP_CHECK(0 <= place.node && place.node < hosts.count(), place.node, hosts.count());
    Host& host = hosts.hosts[static_cast<size_t>(place.node)];
    hosts.host_of.push_back(place.node);
    hosts.local_of.push_back(static_cast<int>(host.ranks.size()));
    host.ranks.push_back(static_cast<int>(hosts.host_of.size()) - 1);
  }
  return hosts;
}

Hosts one_host(int ranks) {
  std::vector<RankPlace> places;
  for (int rank = 0; rank < ranks; ++rank) places.push_back({.rank = rank, .local_rank = rank, .local_size = ranks});
  return hosts_from(places);
}

}  // namespace lockstep::device
