// Which ranks of an engine are about to go, and which of its hosts have gone. A pure value.
//
//   looks at the ranks        b: ranks 2, 3 leave ─ b: ranks 2, 3 leave        ─► leaving: two ranks, with b
//                             b: ranks 2, 3 silent for half of the limit ✗ lost  ─► gone: two ranks, with b
//
// Rank 0's host is the server's own: it leaves together with the server.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "launcher/serve/engine/engine.h"
#include "runtime/core/clock.h"

namespace lockstep::serve {

/// What an engine has to do without.
struct Departure {
  int ranks = 1;
  std::set<std::string> hosts = {};  // none of their ranks is left

  friend bool operator==(const Departure&, const Departure&) = default;
};

class Departures {
 public:
  /// `silence`: of a rank, until it is lost; zero: never.
  explicit Departures(Duration silence) : silence_(silence) {}

  /// Notes a look at all ranks, by rank.
  void note(std::vector<RankPresence> ranks);
  /// The next look is at another engine.
  void forget() { *this = Departures(silence_); }

  /// Ranks that leave now and left at the look before: the ranks of a host do not say so all at once.
  std::optional<Departure> leaving() const;
  /// The hosts whose ranks were all silent at the last look, for half of the limit or longer.
  std::optional<Departure> gone() const;

 private:
  Duration silence_;
  std::vector<RankPresence> before_, now_;
};

}  // namespace lockstep::serve
