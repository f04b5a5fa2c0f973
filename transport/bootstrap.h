// The bootstrap of a group: each process's rank, the places of all ranks, and exchanges of small texts before and
// beside the data plane. Data backends get ids from a `Bootstrap`, never from MPI.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/core/abort_flag.h"
#include "runtime/core/clock.h"
#include "runtime/core/result.h"
#include "runtime/device/rank_place.h"

namespace lockstep::transport {

/// Limits of waits between ranks. All pointers are borrowed and outlive their users.
struct WaitOptions {
  const AbortFlag* abort = nullptr;              // polled by every wait; required
  const Clock* clock = nullptr;                  // required
  Duration deadline = std::chrono::seconds(60);  // of one operation
};

using device::machine_of;
using device::RankPlace;

/// One rank's view of the group. Used by the thread that made it.
class Bootstrap {
 public:
  virtual ~Bootstrap() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// "mpi (Open MPI 4.1.4, threads serialized)", "threads", "single".
  virtual std::string name() const = 0;

  /// The texts of all ranks, by rank.
  /// @collective @blocking
  virtual Result<std::vector<std::string>> exchange(std::string_view mine) = 0;

  /// @collective @blocking
  virtual Result<void> barrier() = 0;

  /// Every rank's place, by rank; the same value on every rank. Determined on construction or first use.
  /// @collective @blocking
  virtual Result<std::vector<RankPlace>> places() = 0;

  /// Leaves the group. Without this call the destructor does not wait for peers.
  /// @collective @blocking
  virtual Result<void> finish() = 0;
};

/// The group of one rank; makes no MPI calls.
std::unique_ptr<Bootstrap> make_single_bootstrap();

/// The hardware threads that this process may run on (sched_getaffinity).
std::vector<int> own_hardware_threads();

/// Those of this process's container or job, regardless of its present binding. Determined by rebinding the calling
/// thread for a moment.
std::vector<int> available_hardware_threads();

/// Fails with `kFailedPrecondition`, naming the ranks whose `statement` differs from rank 0's and the first differing
/// line; `what` names the subject. A statement is text, one fact a line.
/// @collective @blocking
Result<void> agree(Bootstrap& bootstrap, std::string_view what, std::string_view statement);

}  // namespace lockstep::transport
