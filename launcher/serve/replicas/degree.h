// How many ranks an engine has, and on which hosts not: as wanted, and at the next start. A pure value.
//
//   lost       wanted 4    ─► 3 ─ lost ─► 2 ─ service for a while ─► 4, or back to 2 when those cannot be started
//   a host     wanted 4    ─► 2, not on b  ─ service for a while ─► 4, on any host
//   asked for  wanted 4    ─► wanted 3: 3, or wanted 4 again
#pragma once

#include <algorithm>

#include "launcher/serve/replicas/crew.h"
#include "launcher/serve/replicas/departures.h"

namespace lockstep::serve {

class Degree {
 public:
  explicit Degree(int wanted) : wanted_(wanted), next_{wanted} {}

  int wanted() const { return wanted_; }
  const Crew& next() const { return next_; }
  void want(int ranks) {
    wanted_ = ranks;
    next_ = {ranks};
  }
  /// Without what has departed; at least one rank.
  void shrink(const Departure& departure = {}) {
    next_.ranks = std::max(1, next_.ranks - departure.ranks);
    next_.lost_hosts.insert(departure.hosts.begin(), departure.hosts.end());
  }
  /// The wanted ranks are tried again, on any host.
  void grow() { next_ = {wanted_}; }
  /// `crew` is there instead of the wanted ranks.
  void settle(const Crew& crew) { next_ = crew; }

 private:
  int wanted_;
  Crew next_;
};

}  // namespace lockstep::serve
