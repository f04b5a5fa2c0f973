// The shares of a point's groups in its batch and in the machine's cores. Pure.
//
//   batch 8 on 4 cores   4 × TP 1   2 sequences each   cores 0 │ 1 │ 2 │ 3
//                        2 × TP 2   4 sequences each   cores 0 1 │ 2 3
//                        1 × TP 4   8 sequences        any core
//
// Groups get the same number of whole cores, neighbours in the machine's order. Cores that remain stay unused.
#pragma once

#include <span>
#include <vector>

#include "launcher/measure/sweep/grid.h"

namespace lockstep::launcher {

struct GroupShare {
  int64_t batch = 1;
  std::vector<int> hardware_threads;  // empty: any

  friend bool operator==(const GroupShare&, const GroupShare&) = default;
};

/// The share of each group of `shape`; `cores` are the hardware threads that the sweep may use, by core. Fails with
/// `kUnsupported` when the batch is no multiple of the replicas, and when there are fewer cores than replicas.
Result<std::vector<GroupShare>> share_out(const PointShape& shape, std::span<const std::vector<int>> cores);

}  // namespace lockstep::launcher
