#include "engine/group/gathering.h"

#include <algorithm>

#include "runtime/trace/clock_alignment.h"

namespace lockstep::group {

Result<std::vector<std::string>> gather(transport::Bootstrap& bootstrap, std::string_view mine, size_t chunk) {
  LOCKSTEP_TRY(const auto sizes, bootstrap.exchange(std::to_string(mine.size())));
  size_t most = 0;
  for (const std::string& size : sizes) most = std::max<size_t>(most, std::stoull(size));
  std::vector<std::string> all(bootstrap.rank() == 0 ? sizes.size() : 0);
  for (size_t begin = 0; begin < most; begin += chunk) {
    const std::string_view part = begin < mine.size() ? mine.substr(begin, chunk) : std::string_view();
    LOCKSTEP_TRY(const auto parts, bootstrap.exchange(part));
    for (size_t rank = 0; rank < all.size(); ++rank) all[rank] += parts[rank];
  }
  return all;
}

Result<std::vector<trace::RankTimeline>> gather_timelines(transport::Bootstrap& bootstrap,
                                                          const trace::RankTimeline& mine) {
  std::vector<trace::RankTimeline> timelines;
  LOCKSTEP_TRY(auto packed, gather(bootstrap, pack(mine)));
  for (std::string& bytes : packed) {
    LOCKSTEP_TRY(timelines.emplace_back(), trace::unpack_timeline(bytes));
    std::string().swap(bytes);
  }
  if (!timelines.empty()) trace::align(timelines);
  return timelines;
}

Result<std::vector<trace::Ping>> ping(transport::Bootstrap& bootstrap, const Clock& clock) {
  constexpr int kRounds = 16;
  std::vector<trace::Ping> pings;
  LOCKSTEP_TRY_VOID(bootstrap.barrier());  // so that ranks enter the first round together
  for (int round = 0; round < kRounds; ++round) {
    const TimePoint enter = clock.now();
    LOCKSTEP_TRY_VOID(bootstrap.exchange("ping"));
    pings.push_back({enter, clock.now()});
  }
  return pings;
}

}  // namespace lockstep::group
