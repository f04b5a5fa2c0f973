// From a graph to a program: gives every value its address, then turns each node into stages, in order.
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
#include "runtime/device/backend.h"

namespace lockstep::cpu {

/// What a cache asks of the rows of a step.
struct RowLimits {
  int64_t slots = 0;      // slots are below it
  int64_t positions = 0;  // positions are below it
  int64_t window = 0;     // attention to a ring: keys that a row sees; else 0 and the rest has no meaning
  int64_t turning = 0;    // positions that the ring holds behind its pinned rows
  int64_t capacity = 0;   // positions up to which it holds all of them

  friend auto operator<=>(const RowLimits&, const RowLimits&) = default;
};

/// What the attributes of an activation say.
Activation activation_of(const graph::Node& node);

/// Used once. Each `lower_…` adds the stages of one node; they are spread over the lower_*.cpp files.
class Compiler {
 public:
  /// Borrows everything; `program` is filled and must stay where it is.
  Compiler(const graph::Graph& graph, Store& store, const Kernels& kernels, int workers,
           device::Communicator* communicator, Program& program);

  Result<void> compile();

 private:
  using Node = graph::Node;

  Result<void> check_communicator() const;
  void check_plan() const;
  Result<void> map_workspace();
  Result<void> map_scratch();
  /// Lets each stage's barrier ask for the weights of the next product.
  void tell_what_comes();
  void bind_inputs_and_outputs();
  Result<void> place_values();
  Result<Tensor> place(graph::ValueId id) const;
  Result<void> lower(const Node& node);

  Result<void> lower_embedding(const Node& node);
  Result<void> lower_linear(const Node& node);
  Result<void> lower_linear_blocks(const Node& node);
  Result<void> lower_linear_int8(const Node& node);
  void lower_lookup(const Node& node);
  void lower_add(const Node& node);
  void lower_join_partials(const Node& node);
  void lower_scale(const Node& node);
  void lower_soft_cap(const Node& node);
  void lower_rms_norm(const Node& node);
  void lower_layer_norm(const Node& node);
  void lower_activation(const Node& node);
  void lower_gated_activation(const Node& node);
  void lower_moe_route(const Node& node);
  Result<void> lower_moe_experts(const Node& node);
  void lower_columns(const Node& node);
  void lower_select_rows(const Node& node);
  void lower_first_rows(const Node& node);
  void lower_rope(const Node& node);
  void lower_clamp_positions(const Node& node);
  Result<void> lower_kv_append(const Node& node);
  Result<void> lower_attention(const Node& node);
  void lower_all_reduce(const Node& node);
  /// Lets the product that has just been lowered, if it makes the roots of the sum `node`, write them where the
  /// communicator wants them. Returns it, else null.
  class FusedLinear* lend_place_for_roots(const Node& node, const device::TreeSum& sum);
  void lower_all_gather(const Node& node);
  void lower_rows_of_owners(const Node& node);
  void lower_agree(const Node& node);
  void lower_running_slots(const Node& node);
  void lower_own_slots(const Node& node);
  void lower_mark_seen(const Node& node);
  void lower_advance(const Node& node);
  void lower_sample(const Node& node);
  void lower_accept(const Node& node);

  /// Counts the rows in use once `value`, which says so, is known.
  void bound_rows_by(graph::ValueId value);
  /// Refuses rows outside `limits`, once per step.
  void check_rows(const Node& node, graph::ValueId slot, graph::ValueId position, const RowLimits& limits);
  struct AttentionTask attention_task(const Node& node, const CacheLayout& keys, const CacheLayout& values) const;
  Result<void> add_linear(const Node& node, class FusedLinear product);
  /// Does `work` on the columns that a worker takes of each row of `dst`: after the product that made `x`, if that was
  /// the last stage, else in a stage of its own.
  using ColumnWork = std::function<void(int64_t row, int64_t column, int64_t count)>;
  void add_columnwise(const Node& node, graph::ValueId x, ColumnWork work, Fused::As as = Fused::As::kColumnsOf);
  /// The node after `node`, if it alone reads the result; else null.
  const Node* only_reader_next(const Node& node) const;
  /// Whether the product after this norm makes the rows itself; then nothing else is to be done.
  bool leaves_norm_to_product(const Node& node, std::function<void(int64_t, std::byte*)> make_row);
  /// What is done to a cache head of a row. With one row per slot it is left to the attention that follows, whose
  /// workers do it for the heads that they then attend to.
  using HeadWork = std::function<void(int64_t row, int64_t head)>;
  /// That attention, if nothing but such work stands between `node` and it; else null.
  const Node* attention_of_heads(const Node& node) const;
  /// The slots of the token rows that `node` reads, if they are known by then.
  const int32_t* slot_before(const Node& node) const;
  /// An operand that has to be packed is no weight.
  Error not_a_weight(const Node& node, size_t operand) const;
  /// Cosines, then sines, of each row of a rope node; made once per step for nodes that share them.
  const float* rope_table(const Node& node);

  /// A stage of worker 0 that ends with a collective.
  void add_collective(std::function<Result<void>()> work) {
    add_alone(std::move(work));
    last_collective_ = program_.stages.size() - 1;
  }
  void add_shared(std::function<void(Part)> work) { add({.shared = std::move(work)}); }
  void add_alone(std::function<Result<void>()> work) { add({.alone = std::move(work)}); }
  void add(Stage stage) {
    program_.stages.push_back(std::move(stage));
    open_linear_ = nullptr;
  }
  const Tensor& tensor(graph::ValueId id) const { return tensors_[id.value]; }
  const Tensor& operand(const Node& node, size_t i) const { return tensor(node.operands.at(i)); }
  const Tensor& result(const Node& node) const { return tensor(*node.result); }

  const graph::Graph& graph_;
  Store& store_;
  const Kernels& kernels_;
  int workers_;
  device::Communicator* communicator_;
  Program& program_;
  BufferPlan plan_;
  std::vector<Tensor> tensors_;  // by ValueId; caches and packed-only weights have no data
  std::optional<graph::ValueId> slot_of_rows_;
  using RopeKey = std::tuple<std::vector<graph::ValueId>, double, bool>;  // operands but x, scale, turns neighbours
  std::map<RopeKey, const float*> rope_tables_;
  std::set<std::tuple<graph::ValueId, graph::ValueId, RowLimits>> checked_rows_;  // slot, position
  class FusedLinear* open_linear_ = nullptr;           // of the last stage, which still takes work on its columns
  graph::ValueId open_result_{0};                      // what that stage makes
  std::optional<size_t> last_collective_;              // the stage
  std::function<void(int64_t, std::byte*)> make_row_;  // the norm before the next product
  std::vector<HeadWork> head_work_;                    // before the next attention
  size_t open_node_ = 0;                               // that made open_linear_
  std::vector<Fused> found_;                           // by node: what was decided on the way
  void note(const Node& node, Fused::As as, size_t of) {
    found_[static_cast<size_t>(&node - graph_.nodes.data())] = {as, static_cast<int32_t>(of)};
  }
  size_t index_of(const Node& node) const { return static_cast<size_t>(&node - graph_.nodes.data()); }
};

}  // namespace lockstep::cpu
