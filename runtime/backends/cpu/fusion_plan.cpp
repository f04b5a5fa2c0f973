#include "runtime/backends/cpu/fusion_plan.h"

#include <algorithm>
#include <optional>

#include "runtime/backends/cpu/kernels/kernels.h"
#include "runtime/graph/dataflow.h"
#include "runtime/graph/verifier.h"

namespace lockstep::cpu {
namespace {

using graph::Graph;
using graph::Node;
using graph::Op;
using graph::ValueId;
using As = Fused::As;

bool is_product(Op op) { return op == Op::kLinear || op == Op::kLinearBlocks; }

/// The heads that a norm or a rope processes separately.
int64_t heads_in(const Node& node) { return node.integer_or("heads", 1); }

/// Whether a node normalises whole rows.
bool is_row_norm(const Node& node) {
  return node.op == Op::kLayerNorm || (node.op == Op::kRmsNorm && heads_in(node) == 1);
}

/// Whether an attention compares `value` with its keys.
bool is_query_of(const Node& attention, ValueId value) {
  if (attention.operands[0] == value) return true;
  return attention.has("pinned") && attention.integer("pinned") > 0 && attention.operands.back() == value;
}

/// Applies the rules, one function each. A rule returns the fusion of `node`, or nothing.
class Planner {
 public:
  explicit Planner(const Graph& graph) : graph_(graph), flow_(graph), has_row_per_slot_(has_row_per_slot(graph)) {
    plan_.nodes.resize(graph.nodes.size());
  }

  FusionPlan run() && {
    using Rule = std::optional<Fused> (Planner::*)(size_t) const;
    const auto apply = [this](size_t node, std::initializer_list<Rule> rules) {
      for (const Rule rule : rules) {
        if (plan_.nodes[node].as == As::kStage) plan_.nodes[node] = (this->*rule)(node).value_or(Fused{});
      }
    };
    // Heads may be fused with attention only if their readers are, so that is decided first.
    for (size_t i = graph_.nodes.size(); i-- > 0;) apply(i, {&Planner::appended_heads, &Planner::heads});
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      apply(i, {&Planner::rows, &Planner::halves, &Planner::columns, &Planner::roots});
    }
    return std::move(plan_);
  }

 private:
  /// A norm read only by one product.
  std::optional<Fused> rows(size_t index) const {
    const Node& node = graph_.nodes[index];
    if (!is_row_norm(node)) return std::nullopt;
    const std::optional<size_t> reader = flow_.only_reader(*node.result);
    if (!reader || type_of(*node.result).shape[0] > kRowsMadeTwice) return std::nullopt;
    const Node& product = graph_.nodes[*reader];
    const bool is_x = product.op == Op::kLinear && product.operands[0] == *node.result;
    return is_x ? std::optional(part(As::kRowsOf, *reader)) : std::nullopt;
  }

  /// Gate and up side by side, if they have no other readers. Halves are whole strips.
  std::optional<Fused> halves(size_t index) const {
    const Node& node = graph_.nodes[index];
    if (node.op != Op::kGatedActivation || node.operands.size() != 1) return std::nullopt;
    const std::optional<size_t> product = flow_.maker(node.operands[0]);
    if (!product || !is_product(graph_.nodes[*product].op)) return std::nullopt;
    if (!flow_.only_reader(node.operands[0]) || type_of(*node.result).shape[1] % kStrip != 0) return std::nullopt;
    return part(As::kHalvesOf, *product);
  }

  /// Columnwise work on the result of a product's stage; other operands must be complete before that product.
  std::optional<Fused> columns(size_t index) const {
    const Node& node = graph_.nodes[index];
    if (!is_columnwise(node)) return std::nullopt;
    std::optional<size_t> product;  // the last product that it depends on
    for (ValueId operand : node.operands) {
      if (const auto made_with = product_of(operand)) product = std::max(product.value_or(0), *made_with);
    }
    if (!product) return std::nullopt;
    const bool has_all = std::ranges::all_of(node.operands, [&](ValueId operand) {
      return product_of(operand) == product || is_complete_before(operand, *product);
    });
    return has_all ? std::optional(part(As::kColumnsOf, *product)) : std::nullopt;
  }

  /// The sum of a product's roots, if the communicator's buffer can be requested after the previous collective.
  std::optional<Fused> roots(size_t index) const {
    const Node& node = graph_.nodes[index];
    if (graph_.ranks == 1 || node.op != Op::kAllReduce || !flow_.only_reader(node.operands[0])) return std::nullopt;
    const std::optional<size_t> product = flow_.maker(node.operands[0]);
    if (!product || !is_product(graph_.nodes[*product].op)) return std::nullopt;
    const auto begin = graph_.nodes.begin();
    const auto at = [&](size_t i) { return begin + static_cast<std::ptrdiff_t>(i); };
    const auto is_collective = [](const Node& n) { return graph::is_collective(n.op); };
    if (std::none_of(begin, at(*product), is_collective)) return std::nullopt;
    if (std::any_of(at(*product), at(index), is_collective)) return std::nullopt;
    return part(As::kRootsInPlaceOf, *product);
  }

  /// Rows appended to a cache whose next access is an attention.
  std::optional<Fused> appended_heads(size_t index) const {
    const Node& node = graph_.nodes[index];
    if (node.op != Op::kKvAppend) return std::nullopt;
    const std::vector<size_t>& touching = flow_.readers(node.operands[1]);
    const auto next = std::ranges::upper_bound(touching, index);
    if (next == touching.end()) return std::nullopt;
    const Node& attention = graph_.nodes[*next];
    if (!prepares_heads(attention) || attention.operands[3] != node.operands[2]) return std::nullopt;
    return may_wait(index, *next) ? std::optional(part(As::kCacheHeadsOf, *next)) : std::nullopt;
  }

  /// Heads, rotated or normed, that an attention reads or that are appended with it. All other readers must come after
  /// it.
  std::optional<Fused> heads(size_t index) const {
    const Node& node = graph_.nodes[index];
    if (node.op != Op::kRope && node.op != Op::kRmsNorm) return std::nullopt;
    std::optional<Fused> first;
    for (size_t reader : flow_.readers(*node.result)) {
      const std::optional<Fused> lead = lead_of(*node.result, reader);
      if (lead && (!first || lead->of < first->of)) first = lead;
    }
    if (!first || heads_in(node) != heads_of(*first)) return std::nullopt;
    const bool are_late = std::ranges::all_of(flow_.readers(*node.result), [&](size_t reader) {
      return lead_of(*node.result, reader) == first || static_cast<int64_t>(plan_.stage_of(reader)) > first->of;
    });
    return are_late && may_wait(index, static_cast<size_t>(first->of)) ? first : std::nullopt;
  }

  // ---- conditions of the rules --------------------------------------------------------------------------------------

  static Fused part(As as, size_t of) { return {as, static_cast<int32_t>(of)}; }

  const TensorType& type_of(ValueId value) const { return graph_.value(value).type; }

  /// Whether element i of the result depends only on elements i of the operands.
  bool is_columnwise(const Node& node) const {
    switch (node.op) {
      case Op::kAdd:
      case Op::kMultiply:
      case Op::kScale:
      case Op::kSoftCap:
      case Op::kActivation: return true;
      case Op::kGatedActivation: return node.operands.size() == 2;
      case Op::kAllReduce:
      case Op::kAllGather: return graph_.ranks == 1;
      default: return false;
    }
  }

  /// The product in whose stage the columns of `value` are computed.
  std::optional<size_t> product_of(ValueId value) const {
    const std::optional<size_t> maker = flow_.maker(value);
    if (!maker) return std::nullopt;
    if (is_product(graph_.nodes[*maker].op)) return maker;
    const Fused& fused = plan_.nodes[*maker];
    const bool follows = fused.as == As::kColumnsOf || fused.as == As::kHalvesOf;
    return follows ? std::optional(static_cast<size_t>(fused.of)) : std::nullopt;
  }

  bool is_complete_before(ValueId value, size_t node) const {
    std::optional<size_t> maker = flow_.maker(value);
    while (maker && flow_.is_view(graph_.nodes[*maker])) {
      maker = flow_.maker(graph_.nodes[*maker].operands[0]);
    }
    return !maker || plan_.stage_of(*maker) < node;
  }

  /// Whether no node up to `other` updates an operand of `node`.
  bool may_wait(size_t node, size_t other) const {
    const std::vector<ValueId>& read = graph_.nodes[node].operands;
    for (size_t i = node + 1; i < other; ++i) {
      for (size_t updated : graph::updated_operands(graph_.nodes[i].op)) {
        if (std::ranges::count(read, graph_.nodes[i].operands[updated]) > 0) return false;
      }
    }
    return true;
  }

  /// Whether row t is slot t, at least of the first slots: no two rows belong to one sequence.
  static bool has_row_per_slot(const Graph& graph) {
    return graph.rows == graph.slots ||
           std::ranges::any_of(graph.nodes, [](const Node& node) { return node.op == Op::kFirstRows; });
  }

  /// Whether it is an attention whose workers may compute the heads that they read.
  bool prepares_heads(const Node& node) const {
    return node.op == Op::kAttention && node.text("kernel") == "decode" && has_row_per_slot_;
  }

  /// The kind of heads that `reader` needs of `value`.
  std::optional<Fused> lead_of(ValueId value, size_t reader) const {
    const Node& node = graph_.nodes[reader];
    if (prepares_heads(node) && is_query_of(node, value)) return part(As::kQueryHeadsOf, reader);
    const bool is_fused = plan_.nodes[reader].as == As::kQueryHeadsOf || plan_.nodes[reader].as == As::kCacheHeadsOf;
    return is_fused && node.operands[0] == value ? std::optional(plan_.nodes[reader]) : std::nullopt;
  }

  /// The number of heads in `fused`.
  int64_t heads_of(const Fused& fused) const {
    const Node& attention = graph_.nodes[static_cast<size_t>(fused.of)];
    if (fused.as == As::kQueryHeadsOf) return std::ssize(attention.integers("head_map"));
    return type_of(attention.operands[1]).shape[1];
  }

  const Graph& graph_;
  const graph::Dataflow flow_;
  const bool has_row_per_slot_;
  FusionPlan plan_;
};

}  // namespace

size_t FusionPlan::stage_of(size_t node) const {
  const Fused& fused = nodes[node];
  const bool has_own = fused.as == As::kStage || fused.as == As::kRootsInPlaceOf;
  return has_own ? node : static_cast<size_t>(fused.of);
}

std::vector<size_t> FusionPlan::parts_of(size_t node) const {
  std::vector<size_t> parts;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (i != node && stage_of(i) == node) parts.push_back(i);
  }
  return parts;
}

FusionPlan plan_fusion(const Graph& graph) { return Planner(graph).run(); }

}  // namespace lockstep::cpu
