// Where each value of a graph lies while a step runs. Results share memory once they are no longer read; a slice of
// columns lies inside what it is a slice of, and partial sums that are joined lie side by side from the start:
//
//   attention's linear_blocks ──► │ columns 0:N │ columns N:N+M │ ◄── the MLP's linear_blocks
//                                       one all_reduce reads both
#pragma once

#include <optional>
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
  bool packs_planes = false;   // [roots, T, N] that only joins and sums of partials read: planes of the rows in use
};

struct BufferPlan {
  std::vector<Placement> values;  // by ValueId
  int64_t bytes = 0;
};

/// Values live as long as a stage uses them, whether by its own node or by those that are fused with it.
BufferPlan plan_buffers(const graph::Graph& graph, const FusionPlan& fusion);

/// The value that says which rows of a step are padding: the slot operand that all cache operations share, if it is
/// known before any row is computed.
std::optional<graph::ValueId> slot_of_rows(const graph::Graph& graph);

}  // namespace lockstep::cpu
