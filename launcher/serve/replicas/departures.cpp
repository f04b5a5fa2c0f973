#include "launcher/serve/replicas/departures.h"

#include <algorithm>
#include <utility>

namespace lockstep::serve {
namespace {

/// The hosts of which every rank is `absent`, except rank 0's.
template <typename IsAbsent>
std::set<std::string> hosts_without_ranks(const std::vector<RankPresence>& ranks, const IsAbsent& is_absent) {
  std::set<std::string> hosts;
  for (const RankPresence& rank : ranks) {
    if (is_absent(rank)) hosts.insert(rank.host);
  }
  for (const RankPresence& rank : ranks) {
    if (!is_absent(rank)) hosts.erase(rank.host);
  }
  if (!ranks.empty()) hosts.erase(ranks.front().host);
  hosts.erase("");
  return hosts;
}

}  // namespace

void Departures::note(std::vector<RankPresence> ranks) { before_ = std::exchange(now_, std::move(ranks)); }

std::optional<Departure> Departures::leaving() const {
  const auto leaves = [](const RankPresence& rank) { return rank.leaves; };
  const bool is_settled = std::ranges::equal(before_, now_, {}, &RankPresence::leaves, &RankPresence::leaves);
  const auto ranks = static_cast<int>(std::ranges::count_if(now_, leaves));
  if (ranks == 0 || !is_settled) return std::nullopt;
  return Departure{ranks, hosts_without_ranks(now_, leaves)};
}

std::optional<Departure> Departures::gone() const {
  if (silence_ == Duration::zero()) return std::nullopt;
  const double limit = to_seconds(silence_) / 2;
  std::set<std::string> hosts =
      hosts_without_ranks(now_, [limit](const RankPresence& rank) { return rank.silent_s >= limit; });
  if (hosts.empty()) return std::nullopt;
  const auto ranks = std::ranges::count_if(now_, [&](const RankPresence& rank) { return hosts.contains(rank.host); });
  return Departure{static_cast<int>(ranks), std::move(hosts)};
}

}  // namespace lockstep::serve
