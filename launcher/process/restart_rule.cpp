#include "launcher/process/restart_rule.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <vector>

namespace lockstep::launcher {
namespace {

using Next = RestartDecision::Next;

constexpr int kFailedStarts = 2;  // in a row, until ranks, memory or cores are taken for gone

RestartDecision stop(std::string why) { return {.next = Next::kStop, .why = std::move(why)}; }

}  // namespace

/// Why this end asks for fewer ranks; empty if it does not.
std::string RestartRule::reason_to_shrink(const EndedStart& start) const {
  if (limits_.shrinking != Shrinking::kLostTwice) return {};
  if (start.lacks_slots) return "the launcher has no slots for that many ranks";
  std::vector<int> twice;
  std::ranges::set_intersection(start.lost_ranks, lost_ranks_, std::back_inserter(twice));
  return twice.empty() ? "" : fmt::format("rank {} was lost twice in a row", fmt::join(twice, ", "));
}

Duration RestartRule::pause_before(int in_a_row) const {
  const RestartPauses& pauses = limits_.pauses;
  if (in_a_row < pauses.from) return Duration::zero();
  Duration pause = std::min(pauses.first, pauses.longest);
  for (int i = pauses.from; i < in_a_row && pause < pauses.longest && pause > Duration::zero(); ++i) {
    pause = std::min(2 * pause, pauses.longest);
  }
  return pause;
}

/// `in_a_row`: the number of the next restart.
RestartDecision RestartRule::judge(const EndedStart& start, int in_a_row) const {
  if (start.cause == EndCause::kDone) return stop("done");
  if (start.cause == EndCause::kInterrupted) return stop("it was interrupted");
  if (limits_.in_all && restarts_ >= limits_.in_all->most) {
    return stop(fmt::format("it was started again {} times, as often as {} allows", restarts_, limits_.in_all->option));
  }
  if (std::string why = reason_to_shrink(start); !why.empty()) return {.next = Next::kShrink, .why = std::move(why)};
  if (start.cause != EndCause::kLost && !start.is_proven) {
    return stop(start.cause == EndCause::kNotStarted ? "the launcher started no rank" : "the same would happen again");
  }
  if (in_a_row > limits_.in_a_row.most) {
    return stop(fmt::format("it was started again {} times in a row without progress, as often as {} allows",
                            limits_.in_a_row.most, limits_.in_a_row.option));
  }
  if (limits_.shrinking == Shrinking::kEachLoss) return {.next = Next::kShrink, .why = "ranks were lost"};
  if (limits_.shrinking == Shrinking::kFailedStarts && failed_starts_ >= kFailedStarts) {
    return {.next = Next::kShrink, .why = "starts in a row have not come to serve"};
  }
  return {.next = Next::kAgain, .why = {}};
}

RestartDecision RestartRule::decide(const EndedStart& start) {
  if (start.has_progressed) in_a_row_ = 0;
  failed_starts_ = start.has_served ? 0 : failed_starts_ + 1;
  const bool counts = !start.has_progressed || limits_.counted == CountedRestarts::kAll;
  RestartDecision decision = judge(start, in_a_row_ + (counts ? 1 : 0));
  lost_ranks_ = start.lost_ranks;
  if (decision.next == Next::kStop) return decision;
  ++restarts_;
  in_a_row_ += counts ? 1 : 0;
  if (decision.next == Next::kShrink && limits_.shrinking == Shrinking::kLostTwice) {  // it begins with other ranks
    in_a_row_ = 0;
    lost_ranks_.clear();
  }
  decision.pause = pause_before(in_a_row_);
  return decision;
}

}  // namespace lockstep::launcher
