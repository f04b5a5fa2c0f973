// The nodes that make and read each value of a graph.
#pragma once

#include <optional>
#include <vector>

#include "runtime/graph/graph.h"

namespace lockstep::cpu {

/// Nodes are indices of `Graph::nodes`.
class Dataflow {
 public:
  explicit Dataflow(const graph::Graph& graph);

  /// The node whose result it is; empty for an input, a weight, a state or a constant.
  std::optional<size_t> maker(graph::ValueId value) const { return makers_[index(value)]; }
  /// In order; a node that reads it twice is there twice.
  const std::vector<size_t>& readers(graph::ValueId value) const { return readers_[index(value)]; }
  bool is_output(graph::ValueId value) const { return is_output_[index(value)]; }
  /// The one node that reads it, once, if the host does not read it as well.
  std::optional<size_t> only_reader(graph::ValueId value) const;
  /// Columns that the host does not read lie inside what they are columns of: their node has nothing to do.
  bool is_view(const graph::Node& node) const { return node.op == graph::Op::kColumns && !is_output(*node.result); }

 private:
  static size_t index(graph::ValueId value) { return static_cast<size_t>(value.value); }

  std::vector<std::optional<size_t>> makers_;  // by ValueId, as the next two
  std::vector<std::vector<size_t>> readers_;
  std::vector<bool> is_output_;
};

}  // namespace lockstep::cpu
