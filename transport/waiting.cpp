#include "transport/waiting.h"

#include <sched.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>

namespace lockstep::transport {
namespace {

constexpr int kLooksPerClockReading = 1024;  // while spinning: some ten microseconds

}  // namespace

WaitStages wait_stages(bool crowded) {
  using std::chrono::microseconds;
  // On shared cores: yield almost at once, because the awaited rank may need the core.
  return crowded ? WaitStages{.spin = microseconds(1), .yields = 200, .sleep = microseconds(1000)}
                 : WaitStages{.spin = 2 * SpinLimit::kShortest, .yields = 0, .sleep = microseconds(1000)};
}

bool is_crowded(std::span<const RankPlace> places) {
  std::map<std::string, std::set<int>> cores;
  std::map<std::string, size_t> ranks;
  for (const RankPlace& place : places) {
    cores[machine_of(place)].insert(place.cores.begin(), place.cores.end());
    ++ranks[machine_of(place)];
  }
  return std::any_of(ranks.begin(), ranks.end(),
                     [&](const auto& machine) { return machine.second > cores[machine.first].size(); });
}

Patience::Verdict Patience::after_failed_look() {
  if (options_.abort->is_raised()) return Verdict::kAborted;
  if (looks_ < std::numeric_limits<int>::max()) ++looks_;
  const int spins = limit_.pauses();
  if (looks_ <= spins && looks_ % kLooksPerClockReading != 0) {
    pause_core();
    return Verdict::kLookAgain;
  }
  if (has_expired()) return Verdict::kExpired;
  if (looks_ > spins + stages_.yields) {
    if (!asleep_since_) asleep_since_ = options_.clock->now();
    return Verdict::kSleep;
  }
  if (looks_ > spins) sched_yield();
  return Verdict::kLookAgain;
}

bool Patience::has_expired() {
  if (!deadline_) deadline_.emplace(*options_.clock, options_.deadline);
  return deadline_->has_passed();
}

void Patience::learn() {
  limit_.learn(options_.clock->now() - *asleep_since_);
  asleep_since_.reset();
}

Error Patience::abort_reason() const {
  std::optional<Error> reason = options_.abort->reason();
  LOCKSTEP_CHECK(reason.has_value());
  return *std::move(reason);
}

Error expired_error(const ExpiredWait& wait) {
  std::string missing = wait.missing.empty() ? "an unfinished exchange" : rank_list(wait.missing) + " missing";
  if (!wait.where.empty()) missing += fmt::format(" ({})", wait.where);
  return {
      ErrorKind::kDeadlineExceeded,
      fmt::format("[{}] rank {}: {} (operation {}) was given up: found {} after {:.3g} s, expected every rank; look "
                  "at the missing ranks, or raise the deadline",
                  wait.component, wait.rank, wait.operation.operation, wait.operation.sequence, missing,
                  to_seconds(wait.deadline)),
      wait.rank};
}

}  // namespace lockstep::transport
