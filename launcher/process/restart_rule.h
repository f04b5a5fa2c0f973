// The decision after the end of a start of ranks: of a supervised job, of a server's engine. A pure value.
//
//   ended as                                          with progress      without
//   done, interrupted                                 stop               stop
//   lost: a rank, a deadline, a signal                again              again, up to a limit in a row
//   bad input, unsupported, no memory …               again if proven    the same
//   a launcher that started nothing                   again if proven    the same
//   any end, beyond the limit in all                  stop               stop
//   a rank lost twice in a row, or too few slots      with fewer ranks where that shrinks: counted as a first start
//   any end that is repeated                          with fewer ranks where each loss shrinks, or where two starts in
//                                                     a row have not come to serve and that shrinks
//
//   restart in a row          0      1      2      3   …      0 follows progress, unless all count: then it is 1
//   pause, from 0, first 1 s  1 s    2 s    4 s    8 s …      up to the longest
//   pause, from 2, first 1 s  –      none   1 s    2 s …
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "launcher/process/attempt.h"
#include "runtime/core/clock.h"

namespace lockstep::launcher {

/// The most restarts, and the option that says so.
struct RestartLimit {
  int most = 0;
  std::string_view option;
};

/// The restarts that count in a row: all since the last progress, or only those after a start without progress.
enum class CountedRestarts { kAll, kAfterNoProgress };

/// When another start has fewer ranks.
enum class Shrinking { kNever, kLostTwice, kEachLoss, kFailedStarts };  // kLostTwice: also without slots for all

/// The pauses before restarts, by their numbers in a row: none below `from`, then `first`, and twice the last one.
struct RestartPauses {
  int from = 0;
  Duration first = std::chrono::seconds(1);
  Duration longest = std::chrono::seconds(60);
};

struct RestartLimits {
  std::optional<RestartLimit> in_all;  // empty: none
  RestartLimit in_a_row;
  CountedRestarts counted = CountedRestarts::kAfterNoProgress;
  Shrinking shrinking = Shrinking::kNever;
  RestartPauses pauses;
};

/// The end of one start.
struct EndedStart {
  EndCause cause = EndCause::kDone;
  std::set<int> lost_ranks = {};
  bool lacks_slots = false;
  bool has_progressed = false;  // since its beginning
  bool has_served = false;      // since its beginning: for kFailedStarts
  bool is_proven = false;       // it has worked here before: the reason for its end may pass
};

struct RestartDecision {
  enum class Next { kStop, kAgain, kShrink };

  Next next = Next::kStop;
  Duration pause{};  // before the next start
  std::string why;   // it stops, or shrinks

  friend bool operator==(const RestartDecision&, const RestartDecision&) = default;
};

/// The limits and the history that they apply to.
class RestartRule {
 public:
  explicit RestartRule(RestartLimits limits) : limits_(limits) {}

  /// Decides what follows `start`, and adds it to the history.
  RestartDecision decide(const EndedStart& start);

  int restarts() const { return restarts_; }
  /// Those that count in a row.
  int in_a_row() const { return in_a_row_; }

 private:
  RestartDecision judge(const EndedStart& start, int in_a_row) const;
  std::string reason_to_shrink(const EndedStart& start) const;
  Duration pause_before(int in_a_row) const;

  RestartLimits limits_;
  int restarts_ = 0;
  int in_a_row_ = 0;
  int failed_starts_ = 0;     // in a row that have not come to serve
  std::set<int> lost_ranks_;  // of the previous start
};

}  // namespace lockstep::launcher
