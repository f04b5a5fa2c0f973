// Compiles a graph to a program: addresses of all values, then the stages of each node, in order.
#pragma once

#include <map>
#include <set>
#include <span>
#include <tuple>
#include <vector>

#include "runtime/backends/cpu/buffer_plan.h"
#include "runtime/backends/cpu/fusion_plan.h"
#include "runtime/backends/cpu/program.h"
#include "runtime/backends/cpu/store.h"
#include "runtime/device/agreement.h"
#include "runtime/device/backend.h"
#include "runtime/device/row_limits.h"
#include "runtime/sampling/slot_states.h"

namespace lockstep::cpu {

/// The activation in a node's attributes.
Activation activation_of(const graph::Node& node);
NormFactor norm_factor(const graph::Node& norm);

/// Used once. Each `lower_…` adds the stages of one node and of the nodes fused with it; they are in the lower_*.cpp
/// files.
class Compiler {
 public:
  /// Borrows everything; fills `program`, which must not move.
  Compiler(const graph::Graph& graph, Store& store, const Kernels& kernels, int workers,
           device::Communicator* communicator, Program& program);

  Result<void> compile();

 private:
  using Node = graph::Node;
  /// Computes columns of a row of the result, starting at `column`.
  using ColumnWork = std::function<void(int64_t row, int64_t column, int64_t count)>;
  /// Computes a row of the result at `dst`.
  using RowWork = std::function<void(int64_t row, std::byte* dst)>;
  /// Computes or appends a head of a row.
  using HeadWork = std::function<void(int64_t row, int64_t head)>;

  Result<void> check_communicator() const;
  Result<void> map_workspace();
  Result<void> map_scratch();
  /// Makes each stage's barrier prefetch the weights of the next product.
  void tell_what_comes();
  void bind_inputs_and_outputs();
  Result<void> place_values();
  Result<Tensor> place(graph::ValueId id) const;
  Result<void> lower(const Node& node);

  Result<void> lower_embedding(const Node& node);
  Result<void> lower_coded_embedding(const Node& node);
  Result<void> lower_linear(const Node& node);
  Result<void> lower_linear_blocks(const Node& node);
  Result<void> lower_coded_linear(const Node& node);
  Result<void> lower_head_linear(const Node& node);
  void lower_join_heads(const Node& node);
  void lower_lookup(const Node& node);
  void lower_columnwise(const Node& node);
  void lower_join_partials(const Node& node);
  void lower_rowwise(const Node& node);
  void lower_moe_route(const Node& node);
  Result<void> lower_moe_experts(const Node& node);
  void lower_columns(const Node& node);
  void lower_select_rows(const Node& node);
  void lower_first_rows(const Node& node);
  void lower_rope(const Node& node);
  void lower_clamp_positions(const Node& node);
  void lower_kv_append(const Node& node);
  void lower_attention(const Node& node);
  Result<void> lower_causal_conv(const Node& node);
  Result<void> lower_gated_delta_rule(const Node& node);
  void lower_all_reduce(const Node& node);
  void lower_all_gather(const Node& node);
  void lower_rows_of_owners(const Node& node);
  void lower_agree(const Node& node);
  void lower_running_slots(const Node& node);
  void lower_own_slots(const Node& node);
  void lower_mark_seen(const Node& node);
  void lower_advance(const Node& node);
  void lower_sample(const Node& node);
  void lower_accept(const Node& node);
  void lower_score(const Node& node);

  /// For nodes that work column by column.
  ColumnWork column_work(const Node& node) const;
  ColumnWork added(const Node& node) const;
  ColumnWork multiplied(const Node& node) const;
  ColumnWork gated(const Node& node) const;
  ColumnWork scaled_by_position(const Node& node) const;
  ColumnWork weighted_sum(const Node& node) const;
  /// For nodes that need whole rows, such as norms.
  RowWork row_work(const Node& node) const;
  /// The weights of an RMS norm; no data: 1.
  ConstRow norm_weight(const Node& norm) const;
  /// For nodes that work head by head; adds the stages on which such work depends.
  HeadWork head_work(const Node& node);
  HeadWork turned_head(const Node& node);
  HeadWork appended_head(const Node& node);
  HeadWork coded_head(const Node& node, const CacheLayout& cache);
  void lower_heads(const Tensor& rows, int64_t heads, HeadWork work);
  /// Everything fused with an attention, by cache head; empty if nothing is.
  HeadWork heads_before(const Node& attention);
  /// Adds the stages of a product and of the nodes fused with it.
  Result<void> add_product(const Node& node, class FusedLinear product);
  void fuse(const Node& node, FusedLinear& product);
  /// If `node` sums roots in place, makes the product write them into the communicator's buffer and returns the
  /// product; otherwise null.
  FusedLinear* lend_place_for_roots(const Node& node, const device::TreeSum& sum);
  void gather_rows(const Node& node);
  device::AgreedFacts agreed_facts(const Node& node) const;

  /// Counts the rows in use once `value`, which marks padding, is known.
  void bound_rows_by(graph::ValueId value);
  /// Adds a check that rejects rows outside `limits`, once per step.
  void check_rows(const Node& node, graph::ValueId slot, graph::ValueId position, const device::RowLimits& limits);
  struct AttentionTask attention_task(const Node& node) const;
  Result<class ExpertTask> expert_task(const Node& node) const;
  std::optional<class ExpertMatrix> expert_matrix(const Node& node, size_t operand) const;
  /// The states of a node that chooses tokens: `last_id` and `seen` are the numbers of those operands.
  sampling::SlotStates drawing_states(const Node& node, size_t last_id, size_t seen) const;
  /// The slots of the token rows that `node` reads, if they are known.
  const int32_t* slot_of(const Node& node) const;
  /// The error of an operand that must be packed but is not a weight.
  Error not_a_weight(const Node& node, size_t operand) const;
  /// Cosines, then sines, of each row of a rope node; computed once per step and shared between nodes.
  const float* rope_table(const Node& node);

  /// Adds a stage of worker 0 that ends with the collective of `node`.
  void add_collective(const Node& node, std::function<Result<void>()> work) {
    collectives_.emplace(index_of(node), program_.stages.size());
    add_alone(std::move(work));
  }
  void add_shared(std::function<void(Part)> work) { program_.stages.push_back({.shared = std::move(work)}); }
  void add_alone(std::function<Result<void>()> work) { program_.stages.push_back({.alone = std::move(work)}); }

  size_t index_of(const Node& node) const { return static_cast<size_t>(&node - graph_.nodes.data()); }
  const Fused& fused(const Node& node) const { return fusion_.nodes[index_of(node)]; }
  const CacheLayout& cache_of(const Node& node, size_t operand) const;
  const Tensor& tensor(graph::ValueId id) const { return tensors_[id.value]; }
  const Tensor& operand(const Node& node, size_t i) const { return tensor(node.operands.at(i)); }
  const Tensor& result(const Node& node) const { return tensor(*node.result); }
  std::span<const int32_t> integers(const Node& node, size_t i, int64_t count) const {
    return {operand(node, i).as<int32_t>(), static_cast<size_t>(count)};
  }

  const graph::Graph& graph_;
  Store& store_;
  const Kernels& kernels_;
  int workers_;
  device::Communicator* communicator_;
  Program& program_;
  const FusionPlan fusion_;
  const BufferPlan buffers_;
  std::vector<Tensor> tensors_;  // by ValueId; caches and packed-only weights have no data
  const std::optional<graph::ValueId> slot_of_rows_;
  using RopeKey = std::tuple<std::vector<graph::ValueId>, double, bool>;  // operands except x, scale, neighbours
  std::map<RopeKey, const float*> rope_tables_;
  std::set<std::tuple<graph::ValueId, graph::ValueId, device::RowLimits>> checked_rows_;  // slot, position
  std::map<size_t, FusedLinear*> products_;                                               // by node
  std::map<size_t, size_t> collectives_;                                                  // by node: its stage
};

}  // namespace lockstep::cpu
