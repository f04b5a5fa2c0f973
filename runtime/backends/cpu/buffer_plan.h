// The addresses of a graph's values during a step. Results share memory after their last read. A slice of columns is a
// view of its operand, and joined partial sums are adjacent from the start:
//
//   attention's linear_blocks ──► │ columns 0:N │ columns N:N+M │ ◄── the MLP's linear_blocks
//                                       one all_reduce reads both
#pragma once

#include <vector>

#include "runtime/backends/cpu/fusion_plan.h"
#include "runtime/graph/graph.h"

namespace lockstep::cpu {

struct Placement {
  bool is_workspace = false;  // false: a weight, a state, or a view
  int64_t offset = 0;         // bytes into the workspace
  bool is_view = false;       // columns of `base`
  graph::ValueId base{0};
  int64_t first_column = 0;
  bool is_token_rows = false;  // dimension T: only the rows in use are computed
  bool packs_planes = false;   // [roots, T, N] read only by joins and sums of partials: planes of the rows in use
};

struct BufferPlan {
  std::vector<Placement> values;  // by ValueId
  int64_t bytes = 0;
};

/// A value lives while a stage uses it, through its own node or a fused one.
BufferPlan plan_buffers(const graph::Graph& graph, const FusionPlan& fusion);

}  // namespace lockstep::cpu
