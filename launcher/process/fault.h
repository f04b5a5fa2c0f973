// Injected failures for tests: `--fault rank=1,phase=load,kind=kill`. A rank applies them to itself at the points of
// real failures: at the beginning of a phase, or before its n-th prefill or decode step.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "actors/executor.h"
#include "runtime/core/result.h"

namespace lockstep::launcher {

enum class FaultKind {
  kKill,    // SIGKILL: killed without notice
  kStop,    // SIGSTOP: alive, but silent
  kFail,    // an ordinary error
  kMemory,  // out of memory
  kDiffer,  // one sum of a step differs from the other ranks'
};

struct Fault {
  int rank = 0;
  std::string phase;  // as in exit records
  FaultKind kind = FaultKind::kFail;
  int64_t step = 0;  // of prefill or decode, counted from 0 over the whole run

  friend bool operator==(const Fault&, const Fault&) = default;
};

/// Reads "rank=R,phase=NAME,kind=kill|stop|fail|memory|differ[,step=N]". Fails with `kInvalidArgument` naming the part.
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
  /// Whether `kDiffer` has taken effect since the last call.
  bool take_difference() { return std::exchange(differs_, false); }

 private:
  std::vector<Fault> own_;
  bool differs_ = false;
};

}  // namespace lockstep::launcher
