#include "tests/conformance/backend/scalar_model.h"

#include "tests/conformance/backend/scalar_operations.h"

namespace lockstep::conformance {
namespace {

using scalar::Array;
using scalar::Numbers;
using scalar::Rank;

TensorData data_of(const Array& array) {
  if (is_float(array.type.dtype)) return tensor(array.type.dtype, array.type.shape, array.v);
  if (array.type.dtype == DType::kInt32) return int_tensor(array.type.shape, {array.v.begin(), array.v.end()});
  TensorData data = zeros(array.type);
  for (size_t i = 0; i < array.v.size(); ++i) data.bytes[i] = static_cast<std::byte>(array.v[i]);
  return data;
}

/// The values of `graph` before its first node.
Rank start(const graph::Graph& graph, const Contents& contents, const Contents& inputs) {
  Rank rank{&graph, {}};
  for (const graph::Value& value : graph.values) {
    const Contents& source = value.kind == graph::ValueKind::kInput ? inputs : contents;
    const auto found = source.find(value.name);
    Numbers numbers(static_cast<size_t>(value.type.shape.elements()));
    if (value.kind == graph::ValueKind::kConstant) {
      numbers.assign(value.constant.begin(), value.constant.end());
    } else if (value.kind != graph::ValueKind::kResult && found != source.end()) {
      numbers = numbers_of(found->second);
    } else {
      LOCKSTEP_CHECK(value.kind == graph::ValueKind::kResult || value.kind == graph::ValueKind::kState, value.name);
    }
    rank.values.push_back({value.type, std::move(numbers)});
  }
  return rank;
}

}  // namespace

void ScalarModel::set(int rank, const Contents& contents) {
  for (const auto& [name, data] : contents) contents_[static_cast<size_t>(rank)].insert_or_assign(name, data);
}

std::vector<Outcome> ScalarModel::run(std::span<const graph::Graph> graphs, std::span<const Contents> inputs) {
  std::vector<Rank> ranks;
  for (size_t r = 0; r < graphs.size(); ++r) ranks.push_back(start(graphs[r], contents_[r], inputs[r]));
  for (size_t n = 0; n < graphs[0].nodes.size(); ++n) {
    scalar::run_node(ranks, n);
    for (Rank& rank : ranks) {
      const graph::Node& node = rank.graph->nodes[n];
      if (!node.result || !is_float(rank.result(node).type.dtype)) continue;
      for (double& v : rank.result(node).v) v = round_to(rank.result(node).type.dtype, v);
    }
  }
  std::vector<Outcome> outcomes(ranks.size());
  for (size_t r = 0; r < ranks.size(); ++r) {
    for (const graph::Output& output : graphs[r].outputs) {
      outcomes[r].outputs.emplace(output.name, data_of(ranks[r].values[static_cast<size_t>(output.value.value)]));
    }
    for (const graph::ValueId id : graphs[r].values_of(graph::ValueKind::kState)) {
      outcomes[r].states.emplace(graphs[r].value(id).name, data_of(ranks[r].values[static_cast<size_t>(id.value)]));
    }
    set(static_cast<int>(r), outcomes[r].states);
  }
  return outcomes;
}

}  // namespace lockstep::conformance
