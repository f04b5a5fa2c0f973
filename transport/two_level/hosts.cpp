#include "transport/two_level/hosts.h"

#include <algorithm>
#include <limits>

namespace lockstep::transport::two_level {

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
  for (size_t rank = 0; rank < places.size(); ++rank) {
    auto host = std::find_if(hosts.hosts.begin(), hosts.hosts.end(),
                             [&](const Host& known) { return known.name == places[rank].host; });
    if (host == hosts.hosts.end()) host = hosts.hosts.insert(host, Host{.name = places[rank].host, .ranks = {}});
    hosts.host_of.push_back(static_cast<int>(host - hosts.hosts.begin()));
    hosts.local_of.push_back(static_cast<int>(host->ranks.size()));
    host->ranks.push_back(static_cast<int>(rank));
  }
  return hosts;
}

}  // namespace lockstep::transport::two_level
