// How a process learns its place in the group and exchanges small facts before (and beside) the data plane: who am I,
// who else is there, what does everyone say about X. Data backends never ask MPI for ids; they ask a `Bootstrap`.
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

/// How waits between ranks end. All pointers are borrowed and outlive what they are given to.
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

  /// What every rank passed, by rank.
  /// @collective @blocking
  virtual Result<std::vector<std::string>> exchange(std::string_view mine) = 0;

  /// @collective @blocking
  virtual Result<void> barrier() = 0;

  /// Every rank's place, by rank; the same value everywhere. Found on construction or first use.
  /// @collective @blocking
  virtual Result<std::vector<RankPlace>> places() = 0;

  /// Leaves the group in an orderly way. The destructor without it never waits for peers.
  /// @collective @blocking
  virtual Result<void> finish() = 0;
};

/// The group of one: no MPI is touched.
std::unique_ptr<Bootstrap> make_single_bootstrap();

/// The cores that this process may run on (sched_getaffinity).
std::vector<int> own_cores();

/// The cores that this process may be given by anybody: what its container or job has, whatever it is bound to now.
/// Rebinds the calling thread for a moment to learn it.
std::vector<int> available_cores();

/// Fails with `kFailedPrecondition` naming the ranks whose `statement` differs from rank 0's and the first line in
/// which it does; `what` says what is compared. A statement is text, one fact a line.
/// @collective @blocking
Result<void> agree(Bootstrap& bootstrap, std::string_view what, std::string_view statement);

}  // namespace lockstep::transport
