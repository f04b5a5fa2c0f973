#include "tests/neuron_stand_in/thread_exchange.h"

#include <algorithm>

namespace lockstep::stand_in {

Outcome ThreadMeeting::all_gather(int64_t rank, std::span<const int64_t> group, std::span<const std::byte> own,
                                  std::span<std::byte> all) {
  std::unique_lock lock(mutex_);
  Round& round = rounds_[{group.begin(), group.end()}];
  const auto wait = [&](auto until) { return changed_.wait_for(lock, deadline_, until); };
  const Fault late{Fault::Kind::kPeerMissing, "a rank did not come to a collective"};
  // A rank that is ahead waits until the round before has been fetched by all.
  if (!wait([&] { return !round.given.contains(rank); })) return late;
  round.given.emplace(rank, std::vector<std::byte>(own.begin(), own.end()));
  changed_.notify_all();
  if (!wait([&] { return round.given.size() == group.size(); })) return late;
  for (size_t i = 0; i < group.size(); ++i) {
    const std::vector<std::byte>& part = round.given.at(group[i]);
    if (part.size() != own.size()) return Fault{Fault::Kind::kPeerMissing, "a rank came with another collective"};
    std::copy(part.begin(), part.end(), all.begin() + static_cast<ptrdiff_t>(i * own.size()));
  }
  if (++round.fetched == group.size()) {
    round.given.clear();
    round.fetched = 0;
    changed_.notify_all();
  }
  return {};
}

}  // namespace lockstep::stand_in
