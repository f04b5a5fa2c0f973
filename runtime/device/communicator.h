// The data plane: collectives between the ranks of a tensor-parallel group.
//
// A communicator moves bytes and finishes tree sums (runtime/core/block_tree.h); it is independent of layers.
// Implementations live in transport/.
//
// All ranks call every method in the same order. Each wait polls an abort flag and a deadline, so a dead or stuck peer
// ends in an error (`kPeerLost`, `kCancelled` or the flag's reason; `kDeadlineExceeded`), never in a hang. After an
// error the communicator is unusable; destroying it never waits for peers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "runtime/core/block_tree.h"
#include "runtime/core/result.h"

namespace lockstep::device {

/// The queue of an operation. Host communicators run it immediately and ignore the stream; device communicators record
/// it into the graph that a backend is capturing.
struct Stream {
  void* native = nullptr;  // the library's handle, borrowed; null on the host

  static Stream host() { return {}; }
};

/// A sum planned before the first step, so that a step does not allocate. The same value on every rank.
struct TreeSum {
  BlockSplit split;
  TreeFinish finish;

  explicit TreeSum(BlockSplit s) : split(std::move(s)), finish(plan_finish(split)) {}
};

/// The operation that a rank entered last, for error messages and exit records.
struct OperationMark {
  const char* operation = "none";  // "all_reduce", …: a string literal
  uint64_t sequence = 0;           // collectives entered so far
  uint64_t bytes = 0;              // contributed by this rank
};

/// One rank's endpoint of a group. Neither copied nor moved; used by one thread (the executor's).
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// "loopback", "shm", "mpi", …; a communicator that delegates to several names its parts.
  virtual std::string name() const = 0;

  /// The tree sum over every rank's roots. `roots` is f32 [own roots, elements], with this rank's roots according to
  /// `sum.split`; `dst` is f32 [elements] and does not overlap. The result has the same bits on every rank and in every
  /// implementation.
  /// @collective @blocking
  virtual Result<void> all_reduce(const TreeSum& sum, std::span<const float> roots, std::span<float> dst,
                                  Stream stream) = 0;

  /// A buffer f32 [own roots, elements] that saves the copy of the roots, for use as `roots` of the next collective,
  /// which must be `all_reduce` of `sum` into `elements`. Valid until that call. Empty where not supported.
  virtual std::span<float> place_for_roots(const TreeSum& /*sum*/, size_t /*elements*/) { return {}; }

  /// Concatenates the ranks' `src` in `dst`; rank r contributes `counts[r]` bytes (0 is allowed).
  /// @collective @blocking
  virtual Result<void> all_gather(std::span<const std::byte> src, std::span<const int64_t> counts,
                                  std::span<std::byte> dst, Stream stream) = 0;

  /// Copies the bytes of `root` to every rank; the size is the same everywhere.
  /// @collective @blocking
  virtual Result<void> broadcast(std::span<std::byte> bytes, int root, Stream stream) = 0;

  /// Returns when every rank has called it.
  /// @collective @blocking
  virtual Result<void> barrier(Stream stream) = 0;

  /// The last operation that this rank entered. May be called from any thread.
  virtual OperationMark last_operation() const = 0;
};

}  // namespace lockstep::device
