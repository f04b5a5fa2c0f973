// How a rank waits for its peers. A wait is a loop of looks; after each failed look it asks its `Patience` what to do:
//
//   look … look … look … look … look … look ……………… look ……………… look
//   └── spin: a pause ──┘└─ yield the core ─┘└─ sleep on the word (bounded) ─┘
//
// The abort flag is polled after every look and the deadline often enough. How long the early stages last depends on
// whether every rank has a core of its own: a spinning rank must not keep a core from the one that it waits for.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/device/communicator.h"
#include "transport/bootstrap.h"

namespace lockstep::transport {

/// How many looks the early stages of a wait get, and how long one sleep of the last stage lasts at most.
struct WaitStages {
  int spins = 0;
  int yields = 0;
  Duration sleep{};

  friend bool operator==(const WaitStages&, const WaitStages&) = default;
};

/// Stages for ranks that share cores (`crowded`) or have one each.
WaitStages wait_stages(bool crowded);

/// Whether the ranks of a group share cores: as their places say, or in any case (they may with ranks of other groups).
enum class Crowding { kAsPlaced, kCrowded };

/// Whether some machine has more ranks than cores that they may run on. The same on every rank, as `places` is.
bool is_crowded(std::span<const RankPlace> places);

/// The waiting state of one endpoint. Reads the clock only when a wait is not over at once.
class Patience {
 public:
  enum class Verdict {
    kLookAgain,  // after a pause or a yield, which are done
    kSleep,      // for at most `sleep()`, by means that the caller has
    kAborted,    // the abort flag is up
    kExpired,    // the operation's deadline has passed
  };

  Patience(const WaitOptions& options, const WaitStages& stages) : options_(options), stages_(stages) {}

  /// A new operation starts: its deadline is counted from its first slow wait.
  void begin_operation() { deadline_.reset(); }
  /// A new wait of the operation starts.
  void begin_wait() { looks_ = 0; }
  Verdict after_failed_look();

  bool is_aborted() const { return options_.abort->is_raised(); }
  /// Why the flag is up; it must be.
  Error abort_reason() const;
  Duration sleep() const { return stages_.sleep; }
  Duration deadline() const { return options_.deadline; }

 private:
  bool has_expired();

  WaitOptions options_;
  WaitStages stages_;
  int looks_ = 0;
  std::optional<Deadline> deadline_;
};

/// What is said when an operation's deadline passes; `missing` are the ranks that had not come, if that is known.
struct ExpiredWait {
  std::string_view component;  // "transport/shm"
  int rank = 0;
  device::OperationMark operation;
  std::span<const int> missing;
  Duration deadline{};
  std::string_view where = {};  // "host b": where the missing ranks are, if that tells anything
};
Error expired_error(const ExpiredWait& wait);

using device::rank_list;

}  // namespace lockstep::transport
