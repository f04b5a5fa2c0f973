#include "runtime/backends/cuda/fusion_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "runtime/backends/cuda/few_rows.h"
#include "runtime/core/cache_rows.h"
#include "runtime/graph/dataflow.h"

namespace lockstep::cuda {
namespace {

using graph::Graph;
using graph::Node;
using graph::Op;
using graph::ValueId;
using As = Fused::As;

bool is_product(Op op) { return op == Op::kLinear || op == Op::kLinearBlocks; }

bool is_row_norm(const Node& node) {
  return node.op == Op::kLayerNorm || (node.op == Op::kRmsNorm && (!node.has("heads") || node.integer("heads") == 1));
}

/// Applies the rules. Later ones see what earlier ones decided.
class Planner {
 public:
  explicit Planner(const Graph& graph) : graph_(graph), flow_(graph), last_(graph.nodes.size()) {
    plan_.nodes.resize(graph.nodes.size());
    for (size_t i = 0; i < last_.size(); ++i) last_[i] = {i, 0};
  }

  FusionPlan run() && {
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (graph_.nodes[i].op == Op::kAttention) prepare_heads(i);
    }
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (!pair(i) && !column(i)) residual(i);
    }
    for (size_t i = graph_.nodes.size(); i-- > 0;) rows(i);  // what selects a norm's rows comes before it
    return std::move(plan_);
  }

 private:
  // ---- heads: norms, turns and appends ahead of an attention -----------------------------------------------------

  void prepare_heads(size_t attention) {
    const Node& node = graph_.nodes[attention];
    turn_heads(node.operands[0], attention);
    const bool has_pinned = node.has("pinned") && node.integer("pinned") > 0;
    const ValueId last = node.operands.back();
    if (has_pinned && type_of(last) == type_of(node.operands[0])) turn_heads(last, attention);
    for (const size_t cache : {1, 2}) {
      const auto append = append_before(node.operands[cache], attention);
      if (!append) continue;
      fuse(*append, As::kHeadsOf, attention);
      turn_heads(graph_.nodes[*append].operands[0], attention);
    }
  }

  /// The last append to a cache of elements before an attention that nothing else reads in between.
  std::optional<size_t> append_before(ValueId cache, size_t attention) const {
    if (has_row_scales(type_of(cache).dtype)) return std::nullopt;
    const std::vector<size_t>& touching = flow_.readers(cache);
    const auto at = std::ranges::find(touching, attention);
    if (at == touching.begin()) return std::nullopt;
    const Node& append = graph_.nodes[*std::prev(at)];
    const Node& node = graph_.nodes[attention];
    const bool is_alike =
        append.op == Op::kKvAppend && append.operands[2] == node.operands[3] && append.operands[3] == node.operands[4];
    return is_alike ? std::optional(*std::prev(at)) : std::nullopt;
  }

  /// The rotation and norm that make `heads`, which only nodes of this attention's launch read; of joined heads, those
  /// of their first columns and the rotation of the others.
  void turn_heads(ValueId heads, size_t attention) {
    const TensorType& keys = type_of(graph_.nodes[attention].operands[1]);
    const int64_t width = row_values(keys.dtype, keys.shape[3]);
    const auto maker = flow_.maker(heads);
    if (!maker || graph_.nodes[*maker].op != Op::kJoinHeads) {
      turn_columns(heads, width, {Op::kRope, Op::kRmsNorm}, attention);
      return;
    }
    const Node& join = graph_.nodes[*maker];
    const int64_t count = join.integer("heads");
    if (count * width != type_of(heads).shape[1] || !is_read_in(heads, attention)) return;
    fuse(*maker, As::kHeadsOf, attention);
    const auto width_of = [&](size_t operand) { return type_of(join.operands[operand]).shape[1] / count; };
    turn_columns(join.operands[0], width_of(0), {Op::kRope, Op::kRmsNorm}, attention);
    turn_columns(join.operands[1], width_of(1), {Op::kRope}, attention);
  }

  /// The nodes among `ops`, last first, that make heads of `width` columns.
  void turn_columns(ValueId heads, int64_t width, std::initializer_list<Op> ops, size_t attention) {
    for (const Op op : ops) {
      const auto maker = flow_.maker(heads);
      if (!maker || graph_.nodes[*maker].op != op) continue;
      const Node& node = graph_.nodes[*maker];
      const int64_t count = node.integer_or("heads", 1);
      if (count * width != type_of(heads).shape[1] || !is_read_in(heads, attention)) return;
      fuse(*maker, As::kHeadsOf, attention);
      heads = node.operands[0];
    }
  }

  bool is_read_in(ValueId value, size_t launch) const {
    return !flow_.is_output(value) &&
           std::ranges::all_of(flow_.readers(value), [&](size_t reader) { return plan_.launch_of(reader) == launch; });
  }

  // ---- columns: what goes on with a product's results ------------------------------------------------------------

  /// Gates and what they gate, of two products with the same x.
  bool pair(size_t index) {
    const Node& node = graph_.nodes[index];
    if (node.op != Op::kGatedActivation || node.operands.size() != 2) return false;
    const auto gate = flow_.maker(node.operands[0]), up = flow_.maker(node.operands[1]);
    if (!gate || !up || *gate == *up || last_[*gate].node != *gate || last_[*up].node != *up) return false;
    const size_t first = std::min(*gate, *up), second = std::max(*gate, *up);
    const bool fits = is_few(first, 2) && is_few(second, 2) && graph_.nodes[first].op == Op::kLinear &&
                      graph_.nodes[second].op == Op::kLinear &&
                      graph_.nodes[first].operands[0] == graph_.nodes[second].operands[0] &&
                      flow_.only_reader(node.operands[0]) && flow_.only_reader(node.operands[1]) && !is_float(first) &&
                      !is_float(second) && bias_is_early(second, first);
    if (!fits) return false;
    fuse(second, As::kGateOf, first);
    fuse(index, As::kColumnsOf, first);
    last_[first].node = index;
    return true;
  }

  bool bias_is_early(size_t product, size_t launch) const {
    const Node& node = graph_.nodes[product];
    return node.operands.size() < 3 || is_complete_before(node.operands[2], launch);
  }

  /// Elementwise work on the last result of a product's launch, if nothing else reads that.
  bool column(size_t index) {
    const Node& node = graph_.nodes[index];
    for (size_t operand = 0; operand < node.operands.size(); ++operand) {
      const auto maker = flow_.maker(node.operands[operand]);
      if (!maker || !flow_.only_reader(node.operands[operand])) continue;
      const size_t lead = plan_.launch_of(*maker);
      if (last_[lead].node != *maker || !goes_on(node, operand, lead)) continue;
      fuse(index, As::kColumnsOf, lead);
      last_[lead].node = index;
      const bool is_free = node.op == Op::kAllReduce || node.op == Op::kAllGather || node.op == Op::kGatedActivation;
      if (!is_free) ++last_[lead].finishes;
      return true;
    }
    return false;
  }

  bool goes_on(const Node& node, size_t operand, size_t lead) const {
    const Node& product = graph_.nodes[lead];
    const bool is_first = last_[lead].node == lead;
    if (product.op == Op::kEmbedding) {
      return node.op == Op::kAllReduce && graph_.ranks == 1 && is_first &&
             type_of(*node.result).dtype == type_of(product.operands[1]).dtype;
    }
    const bool has_halves = node.op == Op::kGatedActivation && node.operands.size() == 1;
    if (!is_product(product.op) || !is_few(lead, has_halves ? 2 : 1)) return false;
    const bool has_sums = product.op == Op::kLinear || !is_first;  // not roots
    switch (node.op) {
      case Op::kAllReduce:
        return graph_.ranks == 1 && product.op == Op::kLinearBlocks && is_first &&
               type_of(*node.result).dtype == type_of(product.operands[0]).dtype;
      case Op::kAllGather: return graph_.ranks == 1 && has_sums;
      case Op::kGatedActivation:
        return has_halves && is_first && product.op == Op::kLinear && !is_float(lead) &&
               type_of(*node.result).shape[1] % kTileOutputs == 0;
      case Op::kScale:
      case Op::kSoftCap:
      case Op::kActivation: return has_sums && last_[lead].finishes < kMostFinishes;
      case Op::kAdd: {
        const ValueId other = node.operands[1 - operand];
        const TensorType& whole = type_of(*node.result);
        return has_sums && last_[lead].finishes < kMostFinishes && type_of(node.operands[operand]) == whole &&
               type_of(other).dtype == whole.dtype && is_complete_before(other, lead);
      }
      default: return false;
    }
  }

  /// The addition of a residual that follows a sum over roots with a launch of its own.
  void residual(size_t index) {
    const Node& node = graph_.nodes[index];
    if (node.op != Op::kAdd) return;
    for (size_t operand = 0; operand < 2; ++operand) {
      const auto sum = flow_.maker(node.operands[operand]);
      const ValueId other = node.operands[1 - operand];
      if (!sum || graph_.nodes[*sum].op != Op::kAllReduce || plan_.nodes[*sum].as != As::kLaunch) continue;
      if (!flow_.only_reader(node.operands[operand]) || type_of(other) != type_of(*node.result)) continue;
      const auto maker = flow_.maker(other);
      const bool is_dense = !maker || !flow_.is_view(graph_.nodes[*maker]);
      if (!is_dense || !is_complete_before(other, *sum)) continue;
      fuse(index, As::kResidualOf, *sum);
      return;
    }
  }

  // ---- rows: what a product's rows are made of -------------------------------------------------------------------

  void rows(size_t index) {
    const Node& node = graph_.nodes[index];
    const bool selects = node.op == Op::kSelectRows;
    if (!selects && !is_row_norm(node)) return;
    // Rows that are selected for a norm which a product makes.
    if (const auto reader = flow_.only_reader(*node.result);
        selects && reader && is_row_norm(graph_.nodes[*reader]) && plan_.nodes[*reader].as == As::kRowsOf) {
      fuse(index, As::kRowsOf, static_cast<size_t>(plan_.nodes[*reader].of));
      return;
    }
    std::optional<size_t> first;  // the first launch that reads them
    for (const size_t reader : flow_.readers(*node.result)) {
      if (graph_.nodes[reader].op == Op::kAgree) continue;  // of the host, after the step
      const size_t launch = plan_.launch_of(reader);
      first = std::min(first.value_or(launch), launch);
    }
    if (!first || !is_few(*first, pairs_with(*first)) || graph_.nodes[*first].op != Op::kLinear || *first < index)
      return;
    if (type_of(node.operands[0]).dtype != type_of(graph_.nodes[*first].operands[1]).dtype) return;
    const bool are_rows = std::ranges::all_of(flow_.readers(*node.result), [&](size_t reader) {
      const Node& read_by = graph_.nodes[reader];
      const bool is_x = is_product(read_by.op) && read_by.operands[0] == *node.result &&
                        std::ranges::count(read_by.operands, *node.result) == 1;
      return plan_.launch_of(reader) > *first || is_x || read_by.op == Op::kAgree;
    });
    if (are_rows) fuse(index, As::kRowsOf, *first);
  }

  /// Sums that a product's launch makes of each row: with gates, two.
  int pairs_with(size_t product) const {
    const bool has_pair = !plan_.parts_of(product, As::kGateOf).empty();
    const auto columns = plan_.parts_of(product, As::kColumnsOf);
    const bool has_gate =
        std::ranges::any_of(columns, [&](size_t node) { return graph_.nodes[node].op == Op::kGatedActivation; });
    return has_pair || has_gate ? 2 : 1;
  }

  // ---- conditions ------------------------------------------------------------------------------------------------

  void fuse(size_t node, As as, size_t of) { plan_.nodes[node] = {as, static_cast<int32_t>(of)}; }

  const TensorType& type_of(ValueId value) const { return graph_.value(value).type; }

  bool is_few(size_t node, int sums) const {
    return is_product(graph_.nodes[node].op) && has_few_rows(graph_, graph_.nodes[node], sums);
  }

  /// Whether a product's results are f32 where its operands are not, so nothing is rounded.
  bool is_float(size_t product) const {
    const Node& node = graph_.nodes[product];
    return type_of(*node.result).dtype != type_of(node.operands[0]).dtype;
  }

  bool is_complete_before(ValueId value, size_t launch) const {
    std::optional<size_t> maker = flow_.maker(value);
    while (maker && flow_.is_view(graph_.nodes[*maker])) maker = flow_.maker(graph_.nodes[*maker].operands[0]);
    return !maker || plan_.launch_of(*maker) < launch;
  }

  /// The last node of a launch, whose result it writes, and its finishes so far.
  struct Last {
    size_t node = 0;
    int finishes = 0;
  };

  const Graph& graph_;
  const graph::Dataflow flow_;
  std::vector<Last> last_;  // by node
  FusionPlan plan_;
};

std::string_view to_string(As as) {
  switch (as) {
    case As::kLaunch: return "";
    case As::kRowsOf: return "rows of";
    case As::kColumnsOf: return "columns of";
    case As::kGateOf: return "beside";
    case As::kHeadsOf: return "heads of";
    case As::kResidualOf: return "residual of";
  }
  return "";
}

/// The name of a node: its result, or the state that it updates.
std::string name_of(const Graph& graph, const Node& node) {
  const ValueId value = node.result.value_or(node.operands.at(node.op == Op::kKvAppend ? 1 : 0));
  return fmt::format("%{} {}", graph.value(value).name, graph::to_string(node.op));
}

}  // namespace

size_t FusionPlan::launch_of(size_t node) const {
  return nodes[node].as == Fused::As::kLaunch ? node : static_cast<size_t>(nodes[node].of);
}

std::vector<size_t> FusionPlan::parts_of(size_t node, Fused::As as) const {
  std::vector<size_t> parts;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].as == as && nodes[i].of == static_cast<int32_t>(node)) parts.push_back(i);
  }
  return parts;
}

FusionPlan plan_fusion(const Graph& graph) { return Planner(graph).run(); }

std::string to_text(const Graph& graph, const FusionPlan& plan) {
  std::string text;
  for (size_t i = 0; i < plan.nodes.size(); ++i) {
    const Fused& fused = plan.nodes[i];
    if (fused.as == As::kLaunch) continue;
    const Node& other = graph.nodes[static_cast<size_t>(fused.of)];
    text += fmt::format("{} → {} {}\n", name_of(graph, graph.nodes[i]), to_string(fused.as), name_of(graph, other));
  }
  return text;
}

}  // namespace lockstep::cuda
