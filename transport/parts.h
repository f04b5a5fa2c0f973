// Parts of composed communicators: the operations that `device::Communicator` lacks for them. A sum over several groups
// has two parts, each with a given plan of additions:
//
//   within a host    several sums at once, the host's own subtrees; each rank gets a slice of the columns of all
//   between hosts    one sum, whose roots are the hosts' subtrees
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "runtime/device/communicator.h"

namespace lockstep::transport {

/// The composing communicator reports missing ranks, with its own ids.
class PartCommunicator : public device::Communicator {
 public:
  /// `all_reduce` with given additions: `plan.first_root` gives the number of roots of each rank, in the tree's order.
  /// @collective @blocking
  virtual Result<void> finish_sum(const TreeFinish& plan, std::span<const float> roots, std::span<float> dst) = 0;

  /// The missing ranks at the deadline of the last operation; empty if it did not pass.
  virtual std::optional<std::span<const int>> missing() const = 0;
};

/// Several sums over the same roots; every rank receives a slice of each. Borrowed for the call.
struct SliceSums {
  std::span<const TreeFinish> sums;  // the same `first_root` in each
  Range columns;                     // the summed columns of the roots
  std::span<const Range> slices;     // [ranks], of `columns`, counted from its beginning; they do not overlap
};

/// A part whose ranks see each other's memory.
class HostCommunicator : public PartCommunicator {
 public:
  /// `roots` is f32 [own roots, width] with `wanted.columns` inside the width; `dst` becomes f32 [sums, own slice].
  /// @collective @blocking
  virtual Result<void> reduce_slices(const SliceSums& wanted, std::span<const float> roots, size_t width,
                                     std::span<float> dst) = 0;
};

}  // namespace lockstep::transport
