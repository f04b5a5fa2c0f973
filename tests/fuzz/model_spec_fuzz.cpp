// Fuzzes config.json: it is refused with a message, or its model is divided and becomes a valid graph.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "runtime/checkpoint/model_spec.h"
#include "runtime/core/check.h"
#include "runtime/graph/verifier.h"
#include "shards/families/family.h"

using namespace lockstep;

namespace {

void check_numbers(const checkpoint::ModelSpec& spec) {
  LOCKSTEP_CHECK(spec.layers > 0 && spec.hidden_size > 0 && spec.vocabulary > 0, spec.layers, spec.vocabulary);
  LOCKSTEP_CHECK(spec.query_heads % spec.key_value_heads == 0, spec.query_heads, spec.key_value_heads);
  LOCKSTEP_CHECK(spec.head_dim > 0 && spec.max_positions > 0, spec.head_dim, spec.max_positions);
  const int64_t widest = std::max(spec.head_dim, spec.global_heads ? spec.global_heads->head_dim : 0);
  LOCKSTEP_CHECK(spec.rope.rotated <= widest || spec.latent.has_value(), spec.rope.rotated, widest);
  LOCKSTEP_CHECK(spec.windows.empty() || std::ssize(spec.windows) == spec.layers, spec.windows.size(), spec.layers);
  LOCKSTEP_CHECK(spec.experts_per_token <= spec.experts, spec.experts_per_token, spec.experts);
  for (const int64_t layer : spec.dense_layers) LOCKSTEP_CHECK(layer >= 0 && layer < spec.layers, layer);
}

/// Graphs of larger models take long to build.
bool is_small(const checkpoint::ModelSpec& spec) {
  return spec.layers <= 6 && spec.query_heads <= 64 && spec.experts <= 64 && spec.intermediate_size <= 4096 &&
         spec.max_positions <= 4096 && spec.rope.rotated <= 512 && spec.hidden_size <= 4096;
}

void check_graphs(const checkpoint::ModelSpec& spec, int ranks) {
  const auto partition = partition::make_partition(spec, ranks);
  LOCKSTEP_CHECK(partition.has_value(), ranks, partition.error().message);
  const families::StepShape shape{
      .kind = families::StepKind::kDecode, .rank = ranks - 1, .slots = 2, .most_rows = 2, .capacity = 16};
  const auto step = families::build_step(spec, partition.value(), shape);
  if (!step.has_value()) {
    LOCKSTEP_CHECK(step.error().kind == ErrorKind::kUnsupported, ranks, step.error().message);
    return;
  }
  const auto verified = graph::verify(step.value().graph);
  LOCKSTEP_CHECK(verified.has_value(), ranks, verified.error().message);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto spec = checkpoint::parse_spec({reinterpret_cast<const char*>(data), size}, "fuzz.json");
  if (!spec.has_value()) {
    LOCKSTEP_CHECK(!spec.error().message.empty());
    return 0;
  }
  check_numbers(spec.value());
  constexpr size_t kGraphs = 4;  // a part of the inputs: a graph takes as long as hundreds of readings
  if (size % kGraphs != 0 || !is_small(spec.value())) return 0;
  check_graphs(spec.value(), 1);
  const int most = partition::largest_degree(spec.value());
  LOCKSTEP_CHECK(most >= 1, most);
  if (most > 1) check_graphs(spec.value(), most);
  return 0;
}
