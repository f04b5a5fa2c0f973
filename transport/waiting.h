// Waiting for peers. A wait polls in a loop; after each unsuccessful poll its `Patience` decides the next action:
//
//   a core for each rank   poll … poll … poll … poll ……………… poll ……………… poll
//                          └── spin: a pause ──┘└─ sleep on the word (bounded) ─┘
//   ranks share cores      poll … poll … poll … poll ……………… poll
//                          └─ yield the core ─┘└─ sleep on the word (bounded) ─┘
//
// The abort flag is checked after every poll, and the deadline often enough. With a core for each rank the spin is as
// long as `SpinLimit` has learnt, and no rank yields: another program would have the core for milliseconds, also when
// the peer comes at once, whereas who sleeps is woken then. On shared cores yielding is cheaper than sleeping.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/core/spin_limit.h"
#include "runtime/device/communicator.h"
#include "transport/bootstrap.h"

namespace lockstep::transport {

/// How long a wait spins at first, the number of yields after that, and the longest sleep of the last stage.
struct WaitStages {
  Duration spin{};
  int yields = 0;
  Duration sleep{};

  friend bool operator==(const WaitStages&, const WaitStages&) = default;
};

/// Stages for ranks that share cores (`crowded`) or have one each.
WaitStages wait_stages(bool crowded);

/// Whether the ranks of a group share cores: decided by their places, or assumed (also with ranks of other groups).
enum class Crowding { kAsPlaced, kCrowded };

/// Whether some machine has more ranks than cores for them. The same on every rank, as `places` is.
bool is_crowded(std::span<const RankPlace> places);

/// The waiting state of one endpoint. Reads the clock only after an unsuccessful first poll.
class Patience {
 public:
  enum class Verdict {
    kLookAgain,  // after a pause or a yield, which was done
    kSleep,      // for at most `sleep()`, by the caller's method
    kAborted,    // the abort flag is raised
    kExpired,    // the operation's deadline has passed
  };

  Patience(const WaitOptions& options, const WaitStages& stages)
      : options_(options), stages_(stages), limit_(stages.spin) {}

  /// A new operation starts: its deadline is counted from its first slow wait.
  void begin_operation() { deadline_.reset(); }
  /// A new wait of the operation starts.
  void begin_wait() {
    looks_ = 0;
    asleep_since_.reset();
  }
  /// A wait ends for which `after_failed_look` was called.
  void end_wait() {
    if (asleep_since_) learn();
  }
  Verdict after_failed_look();

  bool is_aborted() const { return options_.abort->is_raised(); }
  /// The reason of the raised flag.
  Error abort_reason() const;
  Duration sleep() const { return stages_.sleep; }
  Duration deadline() const { return options_.deadline; }

 private:
  bool has_expired();
  void learn();

  WaitOptions options_;
  WaitStages stages_;
  SpinLimit limit_;
  int looks_ = 0;
  std::optional<TimePoint> asleep_since_;
  std::optional<Deadline> deadline_;
};

/// The error when an operation's deadline passes; `missing`: the missing ranks, if known.
struct ExpiredWait {
  std::string_view component;  // "transport/shm"
  int rank = 0;
  device::OperationMark operation;
  std::span<const int> missing;
  Duration deadline{};
  std::string_view where = {};  // "host b": the place of the missing ranks, if useful
};
Error expired_error(const ExpiredWait& wait);

using device::rank_list;

}  // namespace lockstep::transport
