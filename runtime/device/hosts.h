// The hosts of a group, their ranks, and the rails between hosts.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "runtime/device/rank_place.h"

namespace lockstep::device {

/// One host and its ranks, ascending; a rank's index in the list is its number on the host.
struct Host {
  std::string name;
  std::vector<int> ranks;

  friend bool operator==(const Host&, const Host&) = default;
};

/// All hosts in the order of their first ranks. The same value on every rank.
struct Hosts {
  std::vector<Host> hosts;
  std::vector<int> host_of;   // [ranks]
  std::vector<int> local_of;  // [ranks]: its number on its host

  int count() const { return static_cast<int>(hosts.size()); }
  int ranks() const { return static_cast<int>(host_of.size()); }
  const Host& of(int rank) const { return hosts[static_cast<size_t>(host_of[static_cast<size_t>(rank)])]; }

  /// The number of rails: rail k connects the ranks with number k on their hosts, one of every host.
  int rails() const;
  /// The ranks of a rail, by host.
  std::vector<int> rail(int number) const;
};

/// Groups ranks by `RankPlace::node`. Pure.
Hosts hosts_from(std::span<const RankPlace> places);
/// All ranks on one host without a name. Pure.
Hosts one_host(int ranks);

}  // namespace lockstep::device
