// Communicators that another one is composed of: what the collectives of `device::Communicator` lack for that. A sum
// that several groups finish together is done in two parts, each of which takes its additions as given:
//
//   within a host    several sums at once, the host's own subtrees; each rank gets a slice of the columns of all
//   between hosts    one sum, whose roots are the hosts' subtrees
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "runtime/device/communicator.h"

namespace lockstep::transport {

/// Whoever composes communicators also says who is missing, in its own words.
class PartCommunicator : public device::Communicator {
 public:
  /// `all_reduce` with the additions as they are given: `plan.first_root` says how many roots each rank has, in
  /// whatever order the tree has them. @collective @blocking
  virtual Result<void> finish_sum(const TreeFinish& plan, std::span<const float> roots, std::span<float> dst) = 0;

  /// The ranks that had not come when the deadline of the last operation passed; nothing if none passed.
  virtual std::optional<std::span<const int>> missing() const = 0;
};

/// Several sums over the same roots, of which every rank wants a slice. Borrowed for the call.
struct SliceSums {
  std::span<const TreeFinish> sums;  // the same `first_root` in each
  Range columns;                     // of the roots: what is summed
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
