// Hosts that are parts of one machine, for tests of communicators over several.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "transport/loopback/loopback.h"
#include "transport/two_level/two_level.h"

namespace lockstep::conformance {

/// Places as if rank r ran on host `hosts[r]`; hosts are numbered in the order of their first ranks.
inline std::vector<transport::RankPlace> places_on(const std::vector<int>& hosts) {
  std::vector<transport::RankPlace> places;
  for (size_t rank = 0; rank < hosts.size(); ++rank) {
    const auto before = std::count(hosts.begin(), hosts.begin() + static_cast<std::ptrdiff_t>(rank), hosts[rank]);
    places.push_back({.rank = static_cast<int>(rank),
                      .host = std::string(1, static_cast<char>('a' + hosts[rank])),
                      .local_rank = static_cast<int>(before),
                      .local_size = static_cast<int>(std::count(hosts.begin(), hosts.end(), hosts[rank])),
                      .cores = transport::own_hardware_threads(),
                      .node = hosts[rank],
                      .machine = "this one"});
  }
  return places;
}

/// Hosts whose ranks are threads: a group for every host and one for every rail.
class ThreadHosts {
 public:
  ThreadHosts(const std::vector<int>& hosts, size_t message_bytes = 1 << 20)
      : hosts_(device::hosts_from(places_on(hosts))) {
    const auto group = [&](size_t ranks) {
      return transport::loopback::make_group(static_cast<int>(ranks), message_bytes, transport::Crowding::kCrowded);
    };
    for (const auto& host : hosts_.hosts) within_.push_back(group(host.ranks.size()));
    for (int rail = 0; rail < hosts_.rails(); ++rail) between_.push_back(group(hosts_.hosts.size()));
  }

  /// Each rank calls it once.
  std::unique_ptr<device::Communicator> make_communicator(int rank, const transport::WaitOptions& wait,
                                                          const transport::two_level::Options& options = {}) const {
    const int local = hosts_.local_of[rank];
    const int host = hosts_.host_of[rank];
    transport::two_level::Parts parts{.within = transport::loopback::make_communicator(within_[host], local, wait),
                                      .between = nullptr};
    if (local < hosts_.rails()) {
      parts.between = transport::loopback::make_communicator(between_[local], host, wait);
    }
    return transport::two_level::make_communicator(hosts_, rank, std::move(parts), wait, options);
  }

 private:
  device::Hosts hosts_;
  std::vector<std::shared_ptr<transport::loopback::Group>> within_, between_;
};

}  // namespace lockstep::conformance
