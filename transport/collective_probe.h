// Timing and checking of a communicator's collectives, for all comparisons (choosing.h) and reports.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/core/clock.h"
#include "runtime/core/result.h"
#include "runtime/device/communicator.h"

namespace lockstep::transport {

enum class Collective { kAllReduce, kAllGather, kBroadcast };

/// "all_reduce", …: the name in `device::Communicator`.
std::string_view to_string(Collective collective);

/// The number of collectives of `bytes` that are timed together: several short ones, so that the barrier before them is
/// negligible.
int timed_together(int64_t bytes);

/// Buffers for a group of `ranks`. Used by one thread.
class CollectiveProbe {
 public:
  /// Results have at most `most_bytes`. The clock is borrowed.
  CollectiveProbe(int ranks, int64_t most_bytes, const Clock& clock);

  /// Seconds of one round of `collectives`, one after the other, each with a result of `bytes` (each rank contributes
  /// as many to a sum, its share to a gather): the mean of `repeats` rounds after a barrier.
  /// @collective @blocking
  Result<double> time(device::Communicator& way, std::span<const Collective> collectives, int64_t bytes, int repeats);

 private:
  Result<void> run(device::Communicator& way, Collective collective, int64_t bytes);

  const Clock& clock_;
  const device::TreeSum sum_;  // one leaf for each rank
  std::vector<int64_t> counts_;
  std::vector<float> src_;
  std::vector<float> dst_;
};

/// Runs each collective once on small and large messages and compares with the exact result. Fails with `kInternal`
/// that names the collective, the place and both values. @collective @blocking
Result<void> check_collectives(device::Communicator& way);

}  // namespace lockstep::transport
