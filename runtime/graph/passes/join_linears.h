// Joins linears with a common operand into one linear on a concatenated weight.
//
//   x ─┬─ linear(q_proj) ─ q          x ── linear(qkv_proj) ─┬─ columns 0:a   ─ q
//      ├─ linear(k_proj) ─ k    ►                            ├─ columns a:b   ─ k
//      └─ linear(v_proj) ─ v                                 └─ columns b:c   ─ v
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "runtime/graph/graph.h"

namespace lockstep::graph {

/// The readers of each value: nodes by index, and whether the host reads it.
class Uses {
 public:
  explicit Uses(const Graph& graph);

  const std::vector<size_t>& nodes_of(ValueId value) const { return nodes_[static_cast<size_t>(value.value)]; }
  bool is_output(ValueId value) const { return is_output_[static_cast<size_t>(value.value)]; }
  /// Whether exactly one node reads the value, once, and the host does not.
  bool is_read_once(ValueId value) const { return nodes_of(value).size() == 1 && !is_output(value); }

 private:
  std::vector<std::vector<size_t>> nodes_;
  std::vector<bool> is_output_;
};

/// Linears to join, in the order of their columns in the joined result.
struct LinearGroup {
  std::vector<size_t> linears;
  /// A gated_activation that reads the joined result directly; without one, `columns` splits the result.
  std::optional<size_t> packed_reader;
};

/// Whether the linears read the same operand, produce one type, and have weights (and biases: all or none) without
/// other readers.
bool can_join(const Graph& graph, const Uses& uses, const std::vector<size_t>& linears);

/// Joins each group at the position of its first linear. Requires that every group can be joined and no node is in two
/// groups. Unused weights and constants are removed; results are renumbered.
Graph join_linears(const Graph& graph, const Uses& uses, const std::vector<LinearGroup>& groups);

}  // namespace lockstep::graph
