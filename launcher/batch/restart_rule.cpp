#include "launcher/batch/restart_rule.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <vector>

namespace lockstep::launcher {
namespace {

using Next = RestartDecision::Next;

constexpr int kLost = 5, kTooLate = 6, kInterrupted = 130, kSignals = 128;

bool is_loss(const AttemptEnd& end) {
  return end.started && (end.code == kLost || end.code == kTooLate || end.code > kSignals);
}

/// The ranks that were lost in this attempt and in the previous one.
std::vector<int> lost_twice(const AttemptEnd& end, const RestartHistory& history) {
  std::vector<int> ranks;
  std::ranges::set_intersection(end.lost_ranks, history.lost_ranks, std::back_inserter(ranks));
  return ranks;
}

/// The reason to use fewer ranks; empty if there is none.
std::string reason_to_shrink(const AttemptEnd& end, const std::vector<int>& twice) {
  if (end.lacks_slots) return "the launcher has no slots for that many ranks";
  if (!twice.empty()) return fmt::format("rank {} was lost twice in a row", fmt::join(twice, ", "));
  return {};
}

RestartDecision judge(const AttemptEnd& end, uint64_t rows, const std::vector<int>& twice, const RestartLimits& limits,
                      const RestartHistory& history) {
  if (end.code == 0) return {Next::kStop, "done"};
  if (end.code == kInterrupted) return {Next::kStop, "it was interrupted"};
  if (history.restarts >= limits.restarts) {
    return {Next::kStop, fmt::format("it was started again {} times, as often as --restarts allows", history.restarts)};
  }
  if (const std::string why = reason_to_shrink(end, twice); limits.may_shrink && !why.empty()) {
    return {Next::kShrink, why};
  }
  if (!is_loss(end) && rows == 0) {
    return {Next::kStop, end.started ? "the same would happen again" : "the launcher started no rank"};
  }
  if (history.stalled > limits.stalled_restarts) {
    return {Next::kStop, fmt::format("{} starts in a row finished no row", history.stalled)};
  }
  return {Next::kAgain, {}};
}

}  // namespace

RestartDecision decide_restart(const AttemptEnd& end, uint64_t rows, const RestartLimits& limits,
                               RestartHistory& history) {
  history.stalled = rows > 0 ? 0 : history.stalled + 1;
  const RestartDecision decision = judge(end, rows, lost_twice(end, history), limits, history);
  history.lost_ranks = end.lost_ranks;
  if (decision.next == Next::kStop) return decision;
  ++history.restarts;
  if (decision.next == Next::kShrink) {  // fewer ranks count as a new start
    history.stalled = 0;
    history.lost_ranks.clear();
  }
  return decision;
}

}  // namespace lockstep::launcher
