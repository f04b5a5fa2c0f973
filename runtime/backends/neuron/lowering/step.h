// A step during lowering: the state that the operations' lowering functions read and write. Private to this folder.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/backends/neuron/hlo/builder.h"
#include "runtime/backends/neuron/lowering.h"

namespace lockstep::neuron {

/// The assignment of a step's token rows to slots: all to one slot (a prefill chunk), or rows s·r … s·r + r − 1 to slot
/// s (for all slots or, with r = 1, the first ones).
enum class RowLayout { kOfOneSlot, kOfEachSlot };

class Step {
 public:
  /// The graphs must be the same step.
  Step(std::span<const graph::Graph> graphs, const LoweringOptions& options);

  hlo::Builder& builder() { return builder_; }
  const LoweringOptions& options() const { return options_; }
  int ranks() const { return static_cast<int>(graphs_.size()); }
  const graph::Graph& graph(int rank = 0) const { return graphs_[static_cast<size_t>(rank)]; }
  int64_t slots() const { return graph().slots; }
  RowLayout row_layout() const { return row_layout_; }

  /// The current value; of a state, after the updates so far.
  hlo::Value value(graph::ValueId id) const { return values_.at(static_cast<size_t>(id.value)); }
  void set_value(graph::ValueId id, hlo::Value value) { values_.at(static_cast<size_t>(id.value)) = value; }
  void set_state(graph::ValueId id, hlo::Value value);

  /// A parameter with a different value for each rank, s32 or f32 [n]; equal values become a constant. Shorter ones are
  /// padded with zeros.
  hlo::Value of_each_rank(const std::string& name, const std::vector<std::vector<int32_t>>& values);
  hlo::Value of_each_rank(const std::string& name, const std::vector<std::vector<float>>& values);

  /// The integers s8 [N, groups · width] and the scales f32 [groups, N] of a weight [N, K], which become separate
  /// parameters (`Int8Part`). Fails with `kUnsupported` if two products need different forms of one weight.
  struct Int8Weight {
    hlo::Value integers, scales;
  };
  Result<Int8Weight> in_8_bits(graph::ValueId weight, int64_t leaf, int64_t width);

  /// Adds an output for the host besides the graph's outputs.
  void add_output(std::string name, hlo::Value value) { extra_outputs_.emplace_back(std::move(name), value); }

  LoweredStep finish() &&;

 private:
  void declare(graph::ValueId id);
  void declare_parameter(graph::ValueId id, Role role);
  hlo::Value add_parameter(Parameter parameter);
  Placement placement_of(graph::ValueId id, TensorType& device) const;
  template <typename T>
  hlo::Value rank_parameter(const std::string& name, DType dtype, const std::vector<std::vector<T>>& values);
  std::vector<Shape> shapes_of(graph::ValueId id) const;

  std::span<const graph::Graph> graphs_;
  LoweringOptions options_;
  RowLayout row_layout_;
  hlo::Builder builder_;
  std::vector<hlo::Value> values_;                                // by the graph's ValueId
  std::vector<bool> updated_;                                     // the same: states changed by the step
  std::vector<int> parameter_of_;                                 // the same: index into parameters_, or −1
  std::vector<Parameter> parameters_;                             // in the builder's order
  std::map<std::string, hlo::Value> by_rank_;                     // parameters that differ between ranks, by contents
  std::map<int32_t, std::pair<Int8Weight, Int8Part>> in_8_bits_;  // by the weight's ValueId
  std::vector<std::pair<std::string, hlo::Value>> extra_outputs_;
};

/// One node of the step.
class NodeView {
 public:
  NodeView(Step& step, size_t index) : step_(step), index_(index) {}

  Step& step() const { return step_; }
  hlo::Builder& builder() const { return step_.builder(); }
  /// The node of rank `rank`; needed for attributes that may differ between ranks.
  const graph::Node& node(int rank = 0) const { return step_.graph(rank).nodes[index_]; }
  size_t operands() const { return node().operands.size(); }
  hlo::Value operand(size_t i) const { return step_.value(node().operands.at(i)); }
  std::vector<int64_t> dims(size_t i) const { return builder().dims_of(operand(i)); }
  /// The element type of the result.
  hlo::Element result_element() const;
  double number_or(std::string_view name, double otherwise) const;
  int64_t integer_or(std::string_view name, int64_t otherwise) const;
  /// "n12.name": for parameters of this node only.
  std::string own_name(const std::string& what) const;
  /// The integer attribute `name` of each rank, as s32[1].
  hlo::Value integer_of_each_rank(std::string_view name) const;

  /// Rounds `value` to the result's element type and makes it the node's result.
  void set_result(hlo::Value value) const;
  void set_state(size_t operand, hlo::Value value) const { step_.set_state(node().operands.at(operand), value); }
  Error unsupported(const std::string& what) const;

 private:
  Step& step_;
  size_t index_;
};

// One function per operation, in files by kind.
Result<void> lower_embedding(const NodeView& node);
Result<void> lower_linear(const NodeView& node);
Result<void> lower_linear_blocks(const NodeView& node);
/// x [T, K] · (the weight of operand 1)ᵀ in f32 [T, N]: plain, or in 8 bits with leaves of `leaf` columns if the node
/// has 8-bit integers.
Result<hlo::Value> product_with_weight(const NodeView& node, int64_t leaf);
Result<void> lower_lookup(const NodeView& node);
Result<void> lower_add(const NodeView& node);
Result<void> lower_multiply(const NodeView& node);
Result<void> lower_join_partials(const NodeView& node);
Result<void> lower_scale(const NodeView& node);
Result<void> lower_columns(const NodeView& node);
Result<void> lower_select_rows(const NodeView& node);
Result<void> lower_first_rows(const NodeView& node);

Result<void> lower_scale_rows(const NodeView& node);
Result<void> lower_scale_by_position(const NodeView& node);
Result<void> lower_soft_cap(const NodeView& node);
Result<void> lower_cut_off(const NodeView& node);
Result<void> lower_match_magnitude(const NodeView& node);
Result<void> lower_weighted_sum(const NodeView& node);
Result<void> lower_rms_norm(const NodeView& node);
Result<void> lower_layer_norm(const NodeView& node);
Result<void> lower_activation(const NodeView& node);
Result<void> lower_gated_activation(const NodeView& node);

Result<void> lower_rope(const NodeView& node);
Result<void> lower_clamp_positions(const NodeView& node);
Result<void> lower_kv_append(const NodeView& node);
Result<void> lower_attention(const NodeView& node);

Result<void> lower_moe_route(const NodeView& node);
Result<void> lower_moe_experts(const NodeView& node);

Result<void> lower_all_reduce(const NodeView& node);
Result<void> lower_all_gather(const NodeView& node);
Result<void> lower_rows_of_owners(const NodeView& node);
Result<void> lower_agree(const NodeView& node);

Result<void> lower_running_slots(const NodeView& node);
Result<void> lower_own_slots(const NodeView& node);
Result<void> lower_mark_seen(const NodeView& node);
Result<void> lower_advance(const NodeView& node);
Result<void> lower_sample(const NodeView& node);
Result<void> lower_accept(const NodeView& node);
Result<void> lower_score(const NodeView& node);

}  // namespace lockstep::neuron
