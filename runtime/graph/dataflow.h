// The producing and reading nodes of each value of a graph.
#pragma once

#include <optional>
#include <vector>

#include "runtime/graph/graph.h"

namespace lockstep::graph {

/// Nodes are indices of `Graph::nodes`.
class Dataflow {
 public:
  explicit Dataflow(const Graph& graph);

  /// The producing node; empty for an input, a weight, a state or a constant.
  std::optional<size_t> maker(ValueId value) const { return makers_[index(value)]; }
  /// In order; a node that reads the value twice is listed twice.
  const std::vector<size_t>& readers(ValueId value) const { return readers_[index(value)]; }
  bool is_output(ValueId value) const { return is_output_[index(value)]; }
  /// The only reading node, if it reads the value once and the host does not.
  std::optional<size_t> only_reader(ValueId value) const;
  /// A `columns` node whose result the host does not read is a view of its operand and does no work.
  bool is_view(const Node& node) const { return node.op == Op::kColumns && !is_output(*node.result); }

 private:
  static size_t index(ValueId value) { return static_cast<size_t>(value.value); }

  std::vector<std::optional<size_t>> makers_;  // by ValueId, like the next two
  std::vector<std::vector<size_t>> readers_;
  std::vector<bool> is_output_;
};

}  // namespace lockstep::graph
