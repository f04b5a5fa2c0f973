// What the fusing passes share: linears that read one operand become one linear on a concatenated weight.
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

/// Who reads each value: nodes by index, and whether the host does.
class Uses {
 public:
  explicit Uses(const Graph& graph);

  const std::vector<size_t>& nodes_of(ValueId value) const { return nodes_[static_cast<size_t>(value.value)]; }
  bool is_output(ValueId value) const { return is_output_[static_cast<size_t>(value.value)]; }
  /// Whether one node reads it, once, and the host does not.
  bool is_read_once(ValueId value) const { return nodes_of(value).size() == 1 && !is_output(value); }

 private:
  std::vector<std::vector<size_t>> nodes_;
  std::vector<bool> is_output_;
};

/// Linears to join, in the order of their columns in the joined result.
struct LinearGroup {
  std::vector<size_t> linears;
  /// A gated_activation that reads the joined result as it is; without one, `columns` takes it apart.
  std::optional<size_t> packed_reader;
};

/// Whether the linears read the same operand, have weights (and biases, all or none) that nothing else reads, and make
/// results of one type.
bool can_join(const Graph& graph, const Uses& uses, const std::vector<size_t>& linears);

/// The graph with each group joined, at the place of its first linear. Every group can be joined, and no node is in
/// two. Weights and constants that nothing reads are left out; results are numbered anew.
Graph join_linears(const Graph& graph, const Uses& uses, const std::vector<LinearGroup>& groups);

}  // namespace lockstep::graph
