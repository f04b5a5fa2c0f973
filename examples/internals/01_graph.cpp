// A step's graph as a value: build a small one, print it, parse it, and compute its cost.
#include <fmt/format.h>

#include <cstdio>
#include <exception>

#include "runtime/graph/builder.h"
#include "runtime/graph/text.h"

namespace lockstep {
namespace {

/// One rank's half of an MLP: 4 rows of 8 values; this rank owns leaves 0 and 1 (of four, 16 columns each).
graph::Graph half_an_mlp() {
  constexpr int64_t kRows = 4, kHidden = 8, kColumns = 32;
  const BlockSplit split{.bounds = {0, 2, 4}};
  graph::GraphBuilder builder({.name = "decode", .ranks = 2, .rank = 0, .rows = kRows, .slots = kRows});

  const auto weight = [&](const char* name, int64_t rows, int64_t columns) {
    return builder.weight(name, {DType::kFloat32, {rows, columns}}, {{name, {{0, rows}, {0, columns}}}});
  };
  const auto x = builder.input("x", {DType::kFloat32, {kRows, kHidden}});
  const auto gate = builder.linear(x, weight("gate_proj.weight", kColumns, kHidden));
  const auto up = builder.linear(x, weight("up_proj.weight", kColumns, kHidden));
  const auto inner = builder.gated_activation(gate, up, "silu");
  // Partial sums of the own columns, then the only collective; both are ordinary nodes.
  const auto partial = builder.linear_blocks(inner, weight("down_proj.weight", kHidden, kColumns), split, /*block=*/16);
  builder.output("y", builder.add(x, builder.all_reduce(partial, split, DType::kFloat32)));
  return std::move(builder).finish();
}

void run() {
  const graph::Graph graph = half_an_mlp();
  const std::string text = graph::to_text(graph);
  fmt::print("{}", text);

  const graph::Graph parsed = graph::parse(text).value();
  LOCKSTEP_CHECK(parsed == graph);
  LOCKSTEP_CHECK(graph::fingerprint(parsed) == graph::fingerprint(graph));

  const graph::StepCost cost = graph::cost_of(graph);
  fmt::print("weights {} bytes, {} FLOPs, {} collective(s)\n", cost.weight_bytes, cost.flops, cost.collectives);
  LOCKSTEP_CHECK(cost.weight_bytes == 3 * 32 * 8 * 4, cost.weight_bytes);
  LOCKSTEP_CHECK(cost.flops == 3 * 2 * 4 * 32 * 8, cost.flops);
  LOCKSTEP_CHECK(cost.collectives == 1, cost.collectives);

  // The parser refuses an invalid text and reports the position.
  const auto refused = graph::parse("graph decode tp=1 rank=0 rows=1 slots=1 {\n  output y = %nothing\n}\n");
  LOCKSTEP_CHECK(!refused.has_value());
  fmt::print("{}\n", refused.error().message);
}

}  // namespace
}  // namespace lockstep

int main() try {
  lockstep::run();
  return 0;
} catch (const std::exception& error) {
  fmt::print(stderr, "{}\n", error.what());
  return 1;
}
