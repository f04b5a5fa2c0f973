// Collectives between the ranks of a tensor-parallel group: the data plane. A communicator moves bytes and finishes
// tree sums (runtime/core/block_tree.h); it knows nothing of layers. Implementations live in transport/.
//
// Every method is called by all ranks in the same order. Each wait polls an abort flag and a deadline, so a dead or
// stuck peer ends in an error (`kPeerLost`, `kCancelled` or whatever raised the flag; `kDeadlineExceeded`), never in a
// hang. After an error the communicator is unusable; destroying it never waits for peers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "runtime/core/block_tree.h"
#include "runtime/core/result.h"

namespace lockstep::device {

/// Where an operation is enqueued. Communicators of the host run it at once, whatever the stream; those over the memory
/// of devices record it into the graph that a backend is capturing.
struct Stream {
  void* native = nullptr;  // the library's handle, borrowed; null on the host

  static Stream host() { return {}; }
};

/// A sum planned before the first step, so that a step allocates nothing.
/// The same value on every rank.
struct TreeSum {
  BlockSplit split;
  TreeFinish finish;

  explicit TreeSum(BlockSplit s) : split(std::move(s)), finish(plan_finish(split)) {}
};

/// What a rank was doing with its peers: for error messages and exit records.
struct OperationMark {
  const char* operation = "none";  // "all_reduce", …: a string literal
  uint64_t sequence = 0;           // collectives entered so far
  uint64_t bytes = 0;              // contributed by this rank
};

/// One rank's end of a group. Neither copied nor moved; used by one thread (the executor's).
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// "loopback", "shm", "mpi" …; a choosing communicator names its parts.
  virtual std::string name() const = 0;

  /// The tree sum over every rank's roots. `roots` is f32 [own roots, elements], own roots as `sum.split` says for this
  /// rank; `dst` is f32 [elements] and does not overlap. Every rank gets the same bits, and every implementation gives
  /// the same bits as every other.
  /// @collective @blocking
  virtual Result<void> all_reduce(const TreeSum& sum, std::span<const float> roots, std::span<float> dst,
                                  Stream stream) = 0;

  /// Where this rank may put its roots of the collective that it calls next, if that is an `all_reduce` of `sum` into
  /// `elements`, so that they need no copy: f32 [own roots, elements]. Valid until that call, which takes it as
  /// `roots`. Empty where there is no such place.
  virtual std::span<float> place_for_roots(const TreeSum& /*sum*/, size_t /*elements*/) { return {}; }

  /// `dst` becomes the ranks' `src` one after the other; `counts[r]` bytes come from rank r (0 is allowed).
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
