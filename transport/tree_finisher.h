// The additions of a tree sum on the host: a `TreeFinish` over roots in any memory.
#pragma once

#include <span>
#include <vector>

#include "runtime/core/block_tree.h"

namespace lockstep::transport {

/// Finishes tree sums. Allocates only when a plan has more roots than any before. Used by one thread.
class TreeFinisher {
 public:
  TreeFinisher();

  /// One pointer per root, to be set before `finish`. Valid until the next call.
  std::span<const float*> sources(int roots);

  /// `dst` = the tree sum of the sources, each f32 [dst.size()]; no source overlaps `dst`.
  void finish(const TreeFinish& plan, std::span<float> dst);

 private:
  using Add = void (*)(float* out, const float* left, const float* right, size_t count);

  Add add_;                           // the machine's widest addition; all give the same bits
  std::vector<const float*> source_;  // [roots]
  std::vector<const float*> value_;   // [roots]: the accumulator of the current chunk
  std::vector<float> partial_;        // [roots, kChunk]
};

/// The elements `[begin, end)` of `elements` that `rank` finishes when ranks share the work; whole cache lines.
Range slice_of(int64_t elements, int ranks, int rank);

/// Whether ranks should finish slices and gather them (a second round) instead of each finishing everything. The same
/// on every rank. `round_bytes`: bytes that a rank reads from a peer in the time of one round.
bool prefers_slices(const TreeFinish& plan, int ranks, int64_t elements, double round_bytes);

}  // namespace lockstep::transport
