// The operations of the scalar model, one function each, and their number type.
#pragma once

#include <vector>

#include "runtime/graph/graph.h"
#include "tests/conformance/backend/tensor_data.h"

namespace lockstep::conformance::scalar {

using Numbers = std::vector<double>;

/// A tensor as numbers.
struct Array {
  TensorType type;
  Numbers v;

  int64_t dim(size_t axis) const { return type.shape[axis]; }
  int64_t columns() const { return dim(type.shape.rank() - 1); }
  int64_t rows() const {
    int64_t product = 1;
    for (size_t axis = 0; axis + 1 < type.shape.rank(); ++axis) product *= dim(axis);
    return product;
  }
  double& at(int64_t row, int64_t column) { return v[static_cast<size_t>(row * columns() + column)]; }
  double at(int64_t row, int64_t column) const { return v[static_cast<size_t>(row * columns() + column)]; }
  int64_t integer(int64_t i) const { return static_cast<int64_t>(v[static_cast<size_t>(i)]); }
};

/// The values of one rank during a step.
struct Rank {
  const graph::Graph* graph = nullptr;
  std::vector<Array> values;

  Array& operand(const graph::Node& node, size_t i) { return values[static_cast<size_t>(node.operands[i].value)]; }
  Array& result(const graph::Node& node) { return values[static_cast<size_t>(node.result->value)]; }
};

/// Attributes that may be absent.
inline int64_t integer_or(const graph::Node& node, std::string_view name, int64_t absent) {
  return node.has(name) ? node.integer(name) : absent;
}
inline double number_or(const graph::Node& node, std::string_view name, double absent) {
  return node.has(name) ? node.number(name) : absent;
}

/// Runs node `index` of every rank's graph: the results and states among `ranks` afterwards are exact up to double
/// precision, and not rounded yet.
void run_node(std::vector<Rank>& ranks, size_t index);

// scalar_dense.cpp
void embedding(Rank& rank, const graph::Node& node);
void linear(Rank& rank, const graph::Node& node);
void linear_blocks(Rank& rank, const graph::Node& node);
void head_linear(Rank& rank, const graph::Node& node);
void lookup(Rank& rank, const graph::Node& node);
void add(Rank& rank, const graph::Node& node);
void multiply(Rank& rank, const graph::Node& node);
void join_partials(Rank& rank, const graph::Node& node);
void join_heads(Rank& rank, const graph::Node& node);
void scale(Rank& rank, const graph::Node& node);
void scale_rows(Rank& rank, const graph::Node& node);
void scale_by_position(Rank& rank, const graph::Node& node);
void soft_cap(Rank& rank, const graph::Node& node);
void cut_off(Rank& rank, const graph::Node& node);
/// Rounds `row` to codes in 8 bits, in groups of `group` columns, with their own scales or the given one.
void round_to_codes(Numbers& row, bool is_e4m3, int64_t group, std::optional<float> given);
void fake_quantise(Rank& rank, const graph::Node& node);
void take_columns(Rank& rank, const graph::Node& node);
void match_magnitude(Rank& rank, const graph::Node& node);
void weighted_sum(Rank& rank, const graph::Node& node);
void rms_norm(Rank& rank, const graph::Node& node);
void layer_norm(Rank& rank, const graph::Node& node);
void activation(Rank& rank, const graph::Node& node);
void gated_activation(Rank& rank, const graph::Node& node);
void columns(Rank& rank, const graph::Node& node);
void select_rows(Rank& rank, const graph::Node& node);
void first_rows(Rank& rank, const graph::Node& node);
/// silu, sigmoid, gelu, gelu_tanh, relu or squared_relu of v.
double activated(const std::string& name, double v);

// scalar_attention.cpp
void rope(Rank& rank, const graph::Node& node);
void clamp_positions(Rank& rank, const graph::Node& node);
void kv_append(Rank& rank, const graph::Node& node);
void attention(Rank& rank, const graph::Node& node);

// scalar_experts.cpp
void moe_route(Rank& rank, const graph::Node& node);
void moe_experts(Rank& rank, const graph::Node& node);

// scalar_slots.cpp
void running_slots(Rank& rank, const graph::Node& node);
void own_slots(Rank& rank, const graph::Node& node);
void mark_seen(Rank& rank, const graph::Node& node);
void advance(Rank& rank, const graph::Node& node);
void sample(Rank& rank, const graph::Node& node);
void accept(Rank& rank, const graph::Node& node);
void score(Rank& rank, const graph::Node& node);

}  // namespace lockstep::conformance::scalar
