// Injected failures for tests: `--fault rank=1,phase=load,kind=kill`. A rank applies them to itself at the points of
// real failures: at the beginning of a phase, or before its n-th prefill or decode step.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "actors/executor.h"
#include "runtime/core/result.h"
#include "runtime/device/backend.h"

namespace lockstep::launcher {

enum class FaultKind {
  kKill,    // SIGKILL: killed without notice
  kStop,    // SIGSTOP: alive, but silent
  kFail,    // an ordinary error
  kMemory,  // out of memory
  kDiffer,  // one sum of a step differs from the other ranks'
  kFlip,    // one bit of a weight changes: between file and rank, or in memory before a step
};

struct Fault {
  int rank = 0;
  std::string phase;  // as in exit records
  FaultKind kind = FaultKind::kFail;
  int64_t step = 0;         // of prefill or decode, counted from 0 over the whole run
  std::string tensor = {};  // of kFlip

  friend bool operator==(const Fault&, const Fault&) = default;
};

/// Reads "rank=R,phase=NAME,kind=kill|stop|fail|memory|differ[,step=N]" or, with phase load, prefill or decode,
/// "rank=R,phase=NAME,kind=flip,tensor=NAME[,step=N]". Fails with `kInvalidArgument` naming the part.
Result<Fault> parse_fault(const std::string& text);

/// The faults of one rank, used by its thread. The functions do not return from a kill, and throw for `kFail`
/// (ThrownError) and `kMemory`.
class Faults {
 public:
  Faults(std::vector<Fault> all, int rank);

  bool empty() const { return own_.empty(); }
  void at_phase(const char* phase) const;
  void at_step(const actors::ExecutorStatus& status);
  /// Whether one of them is `kDiffer`.
  bool may_differ() const;
  /// The weights in memory of which `kFlip` flips a bit before a step. They stay until the rank ends.
  void set_weights(const std::vector<device::ResidentWeight>& weights) { weights_ = weights; }
  /// Flips a bit of what was read of a tensor, once for each `kFlip` in load. Thread-safe.
  void at_weights(const std::string& tensor, std::span<std::byte> read);
  /// Whether one of them is `kFlip`.
  bool may_flip() const;
  /// Whether `kDiffer` has taken effect since the last call.
  bool take_difference() { return std::exchange(differs_, false); }

 private:
  std::vector<Fault> own_;
  struct Flipped {
    std::mutex mutex;
    std::set<std::string> tensors;
  };
  std::unique_ptr<Flipped> flipped_ = std::make_unique<Flipped>();
  std::vector<device::ResidentWeight> weights_;
  bool differs_ = false;
};

}  // namespace lockstep::launcher
