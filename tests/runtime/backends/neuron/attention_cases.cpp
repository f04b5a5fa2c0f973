// Cases of rotations, caches and attention: a prompt in chunks, then token by token, with all features of attention,
// over one and two ranks.
#include <fmt/format.h>

#include <algorithm>

#include "tests/runtime/backends/neuron/oracle_case.h"

namespace lockstep::neuron {
namespace {

using conformance::Case;
using conformance::CaseBuilder;
using conformance::Contents;
using conformance::int_tensor;
using conformance::random_tensor;
using graph::ValueId;

constexpr int64_t kSlots = 3;
constexpr int64_t kChunk = 4;
constexpr int64_t kHeadDim = 4;

/// The features of attention in one case.
struct Asked {
  std::string name;
  std::vector<std::vector<int64_t>> head_maps = {{0, 0, 1, 1}};  // by rank
  int64_t capacity = 24;
  int64_t window = 0;
  bool chunked = false;
  int64_t pinned = 0;
  int64_t bound = 0;
  double soft_cap = 0;
  std::string per_head = "";
};

int64_t cache_heads(const std::vector<int64_t>& head_map) {
  return 1 + *std::max_element(head_map.begin(), head_map.end());
}

/// The rows of a step and their contents.
struct StepRows {
  std::vector<int32_t> slot, position;
};

/// A chunk is of one slot, with padding behind; a decode step has a row a slot.
graph::Graph attention_graph(const Asked& asked, int rank, bool decodes) {
  const auto& map = asked.head_maps[static_cast<size_t>(rank)];
  const auto heads = static_cast<int64_t>(map.size()), groups = cache_heads(map);
  const int64_t rows = decodes ? kSlots : kChunk;
  graph::GraphBuilder b({.name = decodes ? "decode" : "prefill",
                         .ranks = static_cast<int>(asked.head_maps.size()),
                         .rank = rank,
                         .rows = rows,
                         .slots = kSlots});
  const ValueId q = b.input("q", {DType::kFloat32, {rows, heads * kHeadDim}});
  const ValueId k = b.input("k", {DType::kFloat32, {rows, groups * kHeadDim}});
  const ValueId v = b.input("v", {DType::kFloat32, {rows, groups * kHeadDim}});
  const TensorType ints{DType::kInt32, {rows}};
  const ValueId slot =
      decodes ? b.running_slots(b.input("active", ints), b.input("finished", ints)) : b.input("slot", ints);
  const ValueId position = b.input("position", ints);
  const TensorType cache{DType::kFloat32, {kSlots, groups, asked.capacity, kHeadDim}};
  const ValueId keys = b.state("keys", cache), values = b.state("values", cache);
  b.kv_append(k, keys, slot, position, asked.window, asked.pinned);
  b.kv_append(v, values, slot, position, asked.window, asked.pinned);
  graph::AttentionOptions options{.head_map = map,
                                  .scale = 0.5,
                                  .kernel = decodes ? "decode" : "prefill",
                                  .window = asked.window,
                                  .chunked = asked.chunked,
                                  .pinned = asked.pinned,
                                  .soft_cap = asked.soft_cap,
                                  .bound = asked.bound};
  std::vector<float> numbers;
  for (int64_t i = 0; i < heads; ++i) numbers.push_back(0.25f * static_cast<float>(i + 1 + rank));
  if (asked.per_head == "slopes") options.slopes = b.constant("slopes", numbers);
  if (asked.per_head == "sinks") options.sinks = b.constant("sinks", numbers);
  if (asked.pinned > 0) options.pinned_q = b.input("pinned_q", {DType::kFloat32, {rows, heads * kHeadDim}});
  b.output("y", b.attention(q, keys, values, slot, position, std::move(options)));
  return std::move(b).finish();
}

Contents random_inputs(const graph::Graph& graph, const StepRows& rows, uint64_t seed) {
  Contents inputs;
  for (const ValueId id : graph.values_of(graph::ValueKind::kInput)) {
    const graph::Value& value = graph.value(id);
    if (value.type.dtype == DType::kFloat32) inputs.emplace(value.name, random_tensor(value.type, seed++, 1.5));
  }
  const Shape shape{static_cast<int64_t>(rows.slot.size())};
  std::vector<int32_t> active;
  for (const int32_t slot : rows.slot) active.push_back(slot >= 0 ? 1 : 0);
  inputs.emplace("slot", int_tensor(shape, rows.slot));
  inputs.emplace("position", int_tensor(shape, rows.position));
  inputs.emplace("active", int_tensor(shape, active));
  inputs.emplace("finished", int_tensor(shape, std::vector<int32_t>(active.size(), 0)));
  return inputs;
}

/// Slot 2 gets a prompt of 6, slot 0 one of 3; then 13 tokens each, slot 1 stays idle.
std::vector<std::pair<size_t, StepRows>> walk() {
  std::vector<std::pair<size_t, StepRows>> steps{
      {0, {{2, 2, 2, 2}, {0, 1, 2, 3}}}, {0, {{2, 2, -1, -1}, {4, 5, 0, 0}}}, {0, {{0, 0, 0, -1}, {0, 1, 2, 7}}}};
  for (int32_t i = 0; i < 13; ++i) steps.push_back({1, {{0, -1, 2}, {3 + i, 0, 6 + i}}});
  return steps;
}

OracleCase attention_case(const Asked& asked) {
  OracleCase c{.name = "attention_" + asked.name, .tolerance = 1e-5, .graphs = {{}, {}}};
  const auto ranks = static_cast<int>(asked.head_maps.size());
  for (int rank = 0; rank < ranks; ++rank) {
    c.graphs[0].push_back(attention_graph(asked, rank, /*decodes=*/false));
    c.graphs[1].push_back(attention_graph(asked, rank, /*decodes=*/true));
  }
  uint64_t seed = 1;
  for (const auto& [graph, rows] : walk()) {
    ScriptedStep step{.graph = graph, .inputs = {}};
    for (int rank = 0; rank < ranks; ++rank) {
      step.inputs.push_back(random_inputs(c.graphs[graph][static_cast<size_t>(rank)], rows, seed += 10));
    }
    c.script.push_back(std::move(step));
  }
  c.contents = [ranks] { return std::vector<Contents>(static_cast<size_t>(ranks)); };
  return c;
}

OracleCase rope_case(const std::string& name, int64_t pairs, const std::string& kind, bool has_long) {
  CaseBuilder b({.name = "step", .ranks = 1, .rank = 0, .rows = 5, .slots = 3});
  const ValueId x = b.input("x", random_tensor({DType::kFloat32, {5, 2 * 8}}, 7));
  const ValueId position = b.input("position", int_tensor({5}, {0, 1, 17, 300, 90}));
  std::vector<float> frequencies, longer;
  for (int64_t i = 0; i < pairs; ++i) {
    frequencies.push_back(1.0f / static_cast<float>(i + 1));
    longer.push_back(0.1f / static_cast<float>(i + 1));
  }
  std::vector<ValueId> operands{x, position, b.builder.constant("frequencies", frequencies)};
  if (has_long) {
    operands.push_back(b.builder.constant("long_frequencies", longer));
    operands.push_back(b.state("is_long", int_tensor({3}, {0, 1, 0})));
    operands.push_back(b.input("slot", int_tensor({5}, {0, 1, 2, -1, 1})));
  }
  b.builder.output("y", b.builder.rope(std::move(operands), 2, 1.25, kind));
  b.builder.output("clamped", b.builder.clamp_positions(position, 20));
  std::vector<Case> cases;
  cases.push_back(std::move(b).finish());
  return single_step("rope_" + name, std::move(cases));
}

}  // namespace

std::vector<OracleCase> attention_cases() {
  std::vector<OracleCase> cases;
  for (const Asked& asked :
       {Asked{.name = "grouped"}, Asked{.name = "irregular", .head_maps = {{0, 0, 0, 1, 2}}},
        Asked{.name = "uneven_tp2", .head_maps = {{0, 0, 0, 1, 1}, {0, 1, 1, 1}}},
        Asked{.name = "uneven_cache_tp2", .head_maps = {{0, 0, 1}, {0, 0}}, .per_head = "slopes"},
        Asked{.name = "bound", .bound = 20}, Asked{.name = "soft_cap", .soft_cap = 1.5},
        Asked{.name = "slopes", .per_head = "slopes"},
        Asked{.name = "sinks_tp2", .head_maps = {{0, 0, 1}, {0, 1}}, .per_head = "sinks"},
        Asked{.name = "ring", .capacity = 8, .window = 5}, Asked{.name = "ring_odd", .capacity = 11, .window = 7},
        Asked{.name = "ring_chunked", .capacity = 11, .window = 5, .chunked = true},
        Asked{.name = "ring_pinned", .capacity = 10, .window = 4, .pinned = 2},
        Asked{.name = "ring_pinned_odd", .capacity = 9, .window = 3, .pinned = 3, .per_head = "sinks"}}) {
    cases.push_back(attention_case(asked));
  }
  cases.push_back(rope_case("halves", 4, "halves", false));
  cases.push_back(rope_case("part_of_head", 3, "halves", false));
  cases.push_back(rope_case("neighbours", 3, "neighbours", false));
  cases.push_back(rope_case("long", 4, "halves", true));
  return cases;
}

}  // namespace lockstep::neuron
