#include "runtime/backends/cuda/store_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "runtime/core/cache_rows.h"
#include "runtime/graph/coded_weights.h"

namespace lockstep::cuda {
namespace {

using graph::Op;

constexpr int64_t kAlignment = 256;

int64_t round_up(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

Error invalid(std::string message) {
  return {ErrorKind::kInvalidArgument, "[runtime/backends/cuda] " + std::move(message)};
}

std::string format_in_words(const std::optional<WeightFormat>& format) {
  return format ? "codes " + to_string(*format) : std::string("elements");
}

/// A matrix in codes that no product reads: its groups as those of one leaf.
CodedPacking table_packing(const WeightLayout& weight) {
  const int64_t columns = weight.type.shape[1];
  return {.outputs = weight.type.shape[0],
          .groups = {.columns = columns, .leaf = std::max<int64_t>(columns, 1), .width = weight.format->group},
          .format = *weight.format};
}

/// Collects what the graphs say about weights and states.
class LayoutMaker {
 public:
  explicit LayoutMaker(const StoreOptions& options) : options_(options) {}

  Result<void> add(const graph::Graph& graph) {
    for (const graph::Value& value : graph.values) LOCKSTEP_TRY_VOID(add_value(value));
    for (const graph::Node& node : graph.nodes) {
      for (size_t i = 0; i < node.operands.size(); ++i) LOCKSTEP_TRY_VOID(add_use(graph, node, i));
      LOCKSTEP_TRY_VOID(add_caches(graph, node));
    }
    return ok();
  }

  StoreLayout finish() && {
    place_weights();
    place_states();
    return std::move(layout_);
  }

 private:
  /// How rows are appended to a cache; empty: unknown yet.
  struct Ring {
    bool is_ring = false;
    int64_t pinned = 0;
    friend bool operator==(const Ring&, const Ring&) = default;
  };

  Result<void> add_value(const graph::Value& value) {
    const auto disagree = [&](const auto& found, const auto& known) {
      return invalid(fmt::format("two graphs disagree about {}: found {}, expected {} as in the first graph",
                                 value.name, found, known));
    };
    if (value.kind == graph::ValueKind::kWeight) {
      const auto [at, is_new] = layout_.weights.emplace(value.name, WeightLayout{value.type, value.format, {}});
      const WeightLayout& known = at->second;
      if (known.type != value.type) return disagree(to_string(value.type), to_string(known.type));
      if (known.format != value.format) return disagree(format_in_words(value.format), format_in_words(known.format));
    }
    if (value.kind == graph::ValueKind::kState) {
      const auto [at, is_new] = layout_.state_index.emplace(value.name, layout_.states.size());
      if (is_new) {
        layout_.states.push_back({.name = value.name, .type = value.type});
      } else if (layout_.states[at->second].type != value.type) {
        return disagree(to_string(value.type), to_string(layout_.states[at->second].type));
      }
    }
    return ok();
  }

  Result<void> add_use(const graph::Graph& graph, const graph::Node& node, size_t operand) {
    const graph::Value& value = graph.value(node.operands[operand]);
    if (value.kind != graph::ValueKind::kWeight) return ok();
    if (node.op == Op::kEmbedding) {  // takes what others need, or rows
      tables_.insert(value.name);
      return ok();
    }
    std::vector<WeightForm>& forms = layout_.weights.find(value.name)->second.forms;
    const Packing packing = packing_of(graph, node, operand);
    const auto add = [&](const Packing& form) {
      if (std::ranges::find(forms, form, &WeightForm::packing) == forms.end()) forms.push_back({form});
    };
    add(packing);
    if (value.format && forms.size() > 1) {  // a weight is read once
      return invalid(fmt::format("cannot pack weight {}: found {} read in two cuts into groups, expected one",
                                 value.name, to_string(*value.format)));
    }
    if (options_.keeps_rows_of_products && operand == 1 && is_product_of_many_rows(graph, node)) add(Packing{});
    return ok();
  }

  Result<void> add_caches(const graph::Graph& graph, const graph::Node& node) {
    if (node.op == Op::kAttention) {
      for (const size_t operand : {1, 2}) rings_.emplace(graph.value(node.operands[operand]).name, std::nullopt);
    }
    if (graph::is_recurrence(node.op)) {
      for (const graph::ValueId state : graph::sequence_states(node)) carried_.insert(graph.value(state).name);
    }
    if (node.op != Op::kKvAppend) return ok();
    const std::string& name = graph.value(node.operands[1]).name;
    const Ring ring{node.has("window"), node.integer_or("pinned", 0)};
    std::optional<Ring>& known = rings_[name];
    if (!known) known = ring;
    if (*known == ring) return ok();
    const auto to_words = [](const Ring& r) {
      return r.is_ring ? fmt::format("a ring behind {} pinned rows", r.pinned) : std::string("one row per position");
    };
    return invalid(fmt::format("cannot lay out cache {}: found it appended to as {}, expected {} as before", name,
                               to_words(ring), to_words(*known)));
  }

  /// Weights that nobody reads are kept row by row; so are tables that no product needs in fragments of one leaf.
  void place_weights() {
    for (auto& [name, weight] : layout_.weights) {
      if (weight.format && weight.forms.empty()) weight.forms.push_back({table_packing(weight)});
      const bool serves_tables = std::ranges::any_of(weight.forms, [](const WeightForm& form) {
        const auto* stack = std::get_if<StackedPacking>(&form.packing);
        return form.packing.index() == 0 || (stack != nullptr && stack->matrix.leaf >= stack->matrix.columns);
      });
      if (weight.format) {
        place_forms(weight);
        continue;
      }
      if (weight.forms.empty() || (tables_.contains(name) && !serves_tables)) weight.forms.push_back({Packing{}});
      place_forms(weight);
    }
  }

  void place_forms(WeightLayout& weight) {
    for (WeightForm& form : weight.forms) {
      form.offset = layout_.weight_bytes;
      layout_.weight_bytes += round_up(bytes_of(weight, form), kAlignment);
    }
  }

  void place_states() {
    struct Region {
      int64_t tile_bytes = 0;  // of all its caches
      int64_t slots = 0;
      int64_t offset = 0;
    };
    std::map<int64_t, Region> regions;  // by the number of tiles of a slot
    for (StateLayout& state : layout_.states) {
      const auto ring = rings_.find(state.name);
      if (carried_.contains(state.name)) continue;  // behind the caches
      if (ring == rings_.end()) {
        state.offset = layout_.dense_bytes;
        layout_.dense_bytes += round_up(state.type.bytes(), 64);
        continue;
      }
      const Shape& shape = state.type.shape;
      const Ring mode = ring->second.value_or(Ring{});
      state.cache = CacheLayout{.dtype = state.type.dtype,
                                .heads = shape[1],
                                .head_dim = row_values(state.type.dtype, shape[3]),
                                .held = {shape[0], shape[2], mode.is_ring, mode.pinned}};
      Region& region = regions[state.cache->tiles()];
      state.cache->offset = region.tile_bytes;
      region.tile_bytes += round_up(state.cache->tile_bytes(), 16);
      region.slots = std::max(region.slots, shape[0]);
    }
    for (auto& [tiles, region] : regions) {
      region.tile_bytes = round_up(region.tile_bytes, kAlignment);
      region.offset = layout_.cache_bytes;
      layout_.cache_bytes += region.slots * tiles * region.tile_bytes;
    }
    for (StateLayout& state : layout_.states) {
      if (!carried_.contains(state.name)) continue;
      state.carried = layout_.cache_bytes;
      layout_.cache_bytes += round_up(state.type.bytes(), kAlignment);
    }
    for (StateLayout& state : layout_.states) {
      if (!state.cache) continue;
      const Region& region = regions[state.cache->tiles()];
      state.cache->region = region.offset;
      state.cache->offset += region.offset;
      state.cache->tile_stride = region.tile_bytes;
      state.cache->slot_stride = state.cache->tiles() * region.tile_bytes;
    }
  }

  const StoreOptions options_;
  StoreLayout layout_;
  std::set<std::string, std::less<>> carried_;
  std::set<std::string> tables_;
  std::map<std::string, std::optional<Ring>, std::less<>> rings_;
};

FragmentPacking fragments(DType dtype, int64_t outputs, int64_t columns, int64_t leaf) {
  return {
      .dtype = dtype, .outputs = outputs, .columns = columns, .leaf = std::max<int64_t>(1, std::min(leaf, columns))};
}

}  // namespace

int64_t bytes_of(const WeightLayout& weight, const WeightForm& form) {
  if (const auto* stack = std::get_if<StackedPacking>(&form.packing)) return stack->bytes();
  if (const auto* codes = std::get_if<CodedPacking>(&form.packing)) return codes->bytes();
  return weight.type.bytes();
}

Packing packing_of(const graph::Graph& graph, const graph::Node& node, size_t operand) {
  const TensorType& type = graph.value(node.operands[operand]).type;
  const Shape& shape = type.shape;
  if (const auto format = graph::format_of(graph, node, operand)) {
    const int64_t parts = node.op == Op::kMoeExperts ? node.integer("experts") : 1;
    return CodedPacking{.outputs = parts > 0 ? shape[0] / parts : 0,
                        .groups = graph::column_groups(graph, node, operand),
                        .format = *format,
                        .parts = parts};
  }
  const bool is_product = node.op == Op::kLinear || node.op == Op::kLinearBlocks;
  if (is_product && operand == 1) {
    const int64_t leaf = node.op == Op::kLinearBlocks ? node.integer("block") : shape[1];
    return StackedPacking{fragments(type.dtype, shape[0], shape[1], leaf)};
  }
  if (node.op == Op::kHeadLinear && operand == 1) {
    const int64_t heads = node.integer("heads");
    return StackedPacking{fragments(type.dtype, shape[0] / heads, shape[1], shape[1]), heads};
  }
  if (node.op == Op::kMoeExperts && operand >= 2 && operand <= 4) {
    const int64_t experts = node.integer("experts");
    const bool has_blocks = operand == 4 && node.text("leaf") == "columns";
    const int64_t rows = experts > 0 ? shape[0] / experts : 0;
    return StackedPacking{fragments(type.dtype, rows, shape[1], has_blocks ? node.integer("block") : shape[1]),
                          experts};
  }
  return {};
}

bool is_product_of_many_rows(const graph::Graph& graph, const graph::Node& node) {
  const bool is_product = node.op == Op::kLinear || node.op == Op::kLinearBlocks;
  const Shape& shape = graph.value(*node.result).type.shape;
  return is_product && !graph::format_of(graph, node, 1) && shape[shape.rank() - 2] > kSomeRows;
}

Result<StoreLayout> StoreLayout::of(std::span<const device::StepGraph> steps, const StoreOptions& options) {
  LayoutMaker maker(options);
  for (const device::StepGraph& step : steps) LOCKSTEP_TRY_VOID(maker.add(step.own));
  return std::move(maker).finish();
}

const WeightForm* StoreLayout::form(std::string_view name, const Packing& packing) const {
  const auto found = weights.find(name);
  if (found == weights.end()) return nullptr;
  const auto form = std::ranges::find(found->second.forms, packing, &WeightForm::packing);
  return form == found->second.forms.end() ? nullptr : &*form;
}

const StateLayout* StoreLayout::state(std::string_view name) const {
  const auto found = state_index.find(name);
  return found == state_index.end() ? nullptr : &states[found->second];
}

bool StoreLayout::is_on_device(std::string_view name) const {
  const StateLayout* found = state(name);
  return found != nullptr && found->belongs_to_slots();
}

const CacheLayout* StoreLayout::cache(std::string_view name) const {
  const StateLayout* found = state(name);
  return found == nullptr || !found->cache ? nullptr : &*found->cache;
}

}  // namespace lockstep::cuda
