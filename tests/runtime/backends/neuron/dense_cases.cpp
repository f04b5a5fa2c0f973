// Tables, products, norms, activations, experts, sums and gathers over ranks with uneven shares.
#include <fmt/format.h>

#include "runtime/core/hash.h"
#include "tests/runtime/backends/neuron/oracle_case.h"

namespace lockstep::neuron {
namespace {

using conformance::Case;
using conformance::CaseBuilder;
using conformance::int_tensor;
using conformance::random_tensor;
using conformance::TensorData;
using graph::ValueId;

constexpr int64_t kRows = 5;

CaseBuilder builder_of(int ranks = 1, int rank = 0) {
  return CaseBuilder({.name = "step", .ranks = ranks, .rank = rank, .rows = kRows, .slots = 3});
}

/// One node over f32 or `dtype` operands that `add` declares; its result is the output.
using AddNode = std::function<ValueId(CaseBuilder&, int rank)>;

OracleCase node_case(const std::string& name, const AddNode& add, int ranks = 1, double tolerance = 1e-5) {
  std::vector<Case> cases;
  for (int rank = 0; rank < ranks; ++rank) {
    CaseBuilder b = builder_of(ranks, rank);
    b.builder.output("y", add(b, rank));
    cases.push_back(std::move(b).finish());
  }
  return single_step(name, std::move(cases), tolerance);
}

uint64_t seed_of(const std::string& name) { return Fingerprint().add(name).value(); }

ValueId input(CaseBuilder& b, const std::string& name, Shape shape, DType dtype = DType::kFloat32) {
  return b.input(name, random_tensor({dtype, std::move(shape)}, seed_of(name)));
}

/// Different on every rank, as a rank's own part is.
ValueId weight(CaseBuilder& b, const std::string& name, Shape shape, int rank = 0, DType dtype = DType::kFloat32,
               std::optional<WeightFormat> format = std::nullopt) {
  const auto seed = seed_of(name) + static_cast<uint64_t>(rank) * 977;
  return b.weight(name, random_tensor({dtype, std::move(shape)}, seed, 0.5), format);
}

ValueId ids(CaseBuilder& b, const std::string& name, std::vector<int32_t> values) {
  const Shape shape{static_cast<int64_t>(values.size())};
  return b.input(name, int_tensor(shape, values));
}

constexpr double kHalfTolerance = 1e-2;  // one unit in the last place of bf16

/// Groups of 4 in a row of 14, whose last is narrower, and one group that is as wide as the row.
void add_int8_products(std::vector<OracleCase>& cases) {
  for (const int64_t group : {4, 64}) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      cases.push_back(node_case(fmt::format("linear_int8_{}_{}", group, to_string(dtype)), [=](CaseBuilder& b, int) {
        return b.builder.linear(input(b, "x", {kRows, 14}, dtype),
                                weight(b, "w", {7, 14}, 0, dtype, WeightFormat{.bits = 8, .group = group}),
                                weight(b, "bias", {7}, 0, dtype), DType::kFloat32, graph::Activations::kInt8);
      }));
    }
  }
  const BlockSplit split{{0, 3, 5}};  // 3 leaves of 6 columns, then 2 of which the last has 4
  cases.push_back(node_case(
      "linear_blocks_int8_uneven",
      [=](CaseBuilder& b, int rank) {
        const int64_t columns = rank == 0 ? 18 : 10;
        const ValueId x =
            b.input("x", random_tensor({DType::kFloat32, {kRows, columns}}, 5 + static_cast<uint64_t>(rank)));
        const ValueId w = weight(b, "w", {6, columns}, rank, DType::kFloat32, WeightFormat{.bits = 8, .group = 4});
        const ValueId y = b.builder.linear_blocks(x, w, split, 6, graph::Activations::kInt8);
        return b.builder.all_reduce(y, split, DType::kFloat32);
      },
      2));
}

void add_products(std::vector<OracleCase>& cases) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    const double tolerance = dtype == DType::kFloat32 ? 1e-5 : kHalfTolerance;
    cases.push_back(node_case(
        fmt::format("linear_{}", to_string(dtype)),
        [=](CaseBuilder& b, int) {
          return b.builder.linear(input(b, "x", {kRows, 12}, dtype), weight(b, "w", {7, 12}, 0, dtype),
                                  weight(b, "bias", {7}, 0, dtype));
        },
        1, tolerance));
  }
  cases.push_back(node_case("linear_f32_result", [](CaseBuilder& b, int) {
    return b.builder.linear(input(b, "x", {kRows, 12}, DType::kBFloat16), weight(b, "w", {7, 12}, 0, DType::kBFloat16),
                            std::nullopt, DType::kFloat32);
  }));
  const BlockSplit split{{0, 3, 5}};  // 3 leaves of 4 columns, then 2 of which the last has 3
  cases.push_back(node_case(
      "linear_blocks_uneven",
      [=](CaseBuilder& b, int rank) {
        const int64_t columns = rank == 0 ? 12 : 7;
        const ValueId x =
            b.input("x", random_tensor({DType::kFloat32, {kRows, columns}}, 5 + static_cast<uint64_t>(rank)));
        const ValueId y = b.builder.linear_blocks(x, weight(b, "w", {6, columns}, rank), split, 4);
        const ValueId z = b.builder.linear_blocks(x, weight(b, "v", {3, columns}, rank), split, 4);
        return b.builder.all_reduce(b.builder.join_partials(y, z), split, DType::kFloat32);
      },
      2));
  add_int8_products(cases);
  cases.push_back(node_case(
      "all_gather_uneven",
      [](CaseBuilder& b, int rank) {
        const int64_t columns = rank == 0 ? 4 : 2;
        const ValueId x =
            b.input("x", random_tensor({DType::kFloat32, {kRows, columns}}, 9 + static_cast<uint64_t>(rank)));
        return b.builder.all_gather(x, {4, 2});
      },
      2));
}

void add_tables(std::vector<OracleCase>& cases) {
  for (const int ranks : {1, 2}) {
    cases.push_back(node_case(
        fmt::format("embedding_tp{}", ranks),
        [=](CaseBuilder& b, int rank) {
          const Range rows = ranks == 1 ? Range{0, 9} : rank == 0 ? Range{0, 6} : Range{6, 9};
          const ValueId tokens = ids(b, "ids", {0, 8, 5, 6, 2});
          std::vector<int64_t> bounds;
          for (int r = 0; r <= ranks; ++r) bounds.push_back(r);
          return b.builder.all_reduce(
              b.builder.embedding(tokens, weight(b, "table", {rows.size(), 4}, rank), rows.begin), BlockSplit{bounds},
              DType::kFloat32);
        },
        ranks));
  }
  cases.push_back(node_case("lookup", [](CaseBuilder& b, int) {
    return b.builder.lookup(ids(b, "index", {0, 3, -2, 9, 1}), weight(b, "table", {6, 4}), 2);
  }));
  cases.push_back(node_case("select_rows", [](CaseBuilder& b, int) {
    return b.builder.select_rows(input(b, "x", {kRows, 4}), ids(b, "rows", {4, -1, 0}));
  }));
  cases.push_back(node_case("columns", [](CaseBuilder& b, int) {
    return b.builder.columns(input(b, "x", {kRows, 9}), {2, 6});
  }));
}

void add_rowwise(std::vector<OracleCase>& cases) {
  cases.push_back(node_case("add_rows", [](CaseBuilder& b, int) {
    const ValueId x = input(b, "x", {kRows, 6});
    return b.builder.add(b.builder.add(x, input(b, "y", {kRows, 6})), weight(b, "bias", {6}));
  }));
  cases.push_back(node_case("scale_and_cap", [](CaseBuilder& b, int) {
    return b.builder.soft_cap(b.builder.scale(input(b, "x", {kRows, 6}), 7.5), 3.0);
  }));
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const std::optional<double> offset : {std::optional<double>(), std::optional(1.0)}) {
      cases.push_back(node_case(
          fmt::format("rms_norm_{}_offset{}", to_string(dtype), offset.value_or(0.0)),
          [=](CaseBuilder& b, int) {
            return b.builder.rms_norm(input(b, "x", {kRows, 24}, dtype), weight(b, "w", {8}, 0, dtype), 1e-5, 3,
                                      offset);
          },
          1, dtype == DType::kFloat32 ? 1e-5 : kHalfTolerance));
    }
  }
  cases.push_back(node_case("rms_norm_without_weight", [](CaseBuilder& b, int) {
    return b.builder.rms_norm(input(b, "x", {kRows, 24}), std::nullopt, 1e-5, 3, /*offset=*/0.0);
  }));
  cases.push_back(node_case("multiply", [](CaseBuilder& b, int) {
    const ValueId x = b.builder.multiply(input(b, "x", {kRows, 6}), input(b, "y", {kRows, 6}));
    return b.builder.multiply(b.builder.multiply(x, weight(b, "row", {6})), weight(b, "one", {1}));
  }));
  cases.push_back(node_case("layer_norm", [](CaseBuilder& b, int) {
    return b.builder.layer_norm(input(b, "x", {kRows, 12}), weight(b, "w", {12}), weight(b, "b", {12}), 1e-5);
  }));
  cases.push_back(node_case("layer_norm_offset_no_bias", [](CaseBuilder& b, int) {
    return b.builder.layer_norm(input(b, "x", {kRows, 12}), weight(b, "w", {12}), std::nullopt, 1e-5, /*offset=*/1.0);
  }));
  cases.push_back(node_case("moe_route_over_all", [](CaseBuilder& b, int) {
    return b.builder.moe_route(input(b, "logits", {kRows, 5}), {.chosen = 2, .over = "all"});
  }));
  cases.push_back(node_case("moe_route_sigmoid_bias", [](CaseBuilder& b, int) {
    return b.builder.moe_route(input(b, "logits", {kRows, 5}),
                               {.chosen = 2, .scores = "sigmoid", .bias = input(b, "bias", {5}), .least_sum = 1e-20});
  }));
  cases.push_back(node_case("moe_route_groups", [](CaseBuilder& b, int) {
    return b.builder.moe_route(
        input(b, "logits", {kRows, 8}),
        {.chosen = 3, .scores = "sigmoid", .groups = 4, .kept_groups = 2, .group_score = "best_two", .scale = 2.5});
  }));
  cases.push_back(node_case("moe_route_groups_of_shares", [](CaseBuilder& b, int) {
    return b.builder.moe_route(
        input(b, "logits", {kRows, 6}),
        {.chosen = 2, .over = "all", .bias = input(b, "bias", {6}), .groups = 3, .kept_groups = 2});
  }));
  cases.push_back(node_case("scale_rows", [](CaseBuilder& b, int) {
    return b.builder.scale_rows(input(b, "x", {kRows, 6}), input(b, "factors", {kRows, 1}));
  }));
  cases.push_back(node_case("cut_off", [](CaseBuilder& b, int) {
    return b.builder.cut_off(input(b, "x", {kRows, 12}), /*deviations=*/0.5);
  }));
  cases.push_back(node_case("match_magnitude", [](CaseBuilder& b, int) {
    return b.builder.match_magnitude(input(b, "x", {kRows, 12}), input(b, "like", {kRows, 12}), /*least=*/1e-5);
  }));
  cases.push_back(node_case("weighted_sum", [](CaseBuilder& b, int) {
    const std::vector<ValueId> terms = {input(b, "x0", {kRows, 6}), input(b, "x1", {kRows, 6})};
    return b.builder.weighted_sum(input(b, "factors", {kRows, 5}), /*first=*/2, terms, /*offset=*/1.0);
  }));
  cases.push_back(node_case("scale_by_position", [](CaseBuilder& b, int) {
    const ValueId position = b.input("position", int_tensor({kRows}, std::vector<int32_t>(kRows, 3)));
    return b.builder.scale_by_position(input(b, "x", {kRows, 6}), position,
                                       b.builder.constant("factors", {1.0f, 1.5f, 2.5f}), /*every=*/4, /*offset=*/1);
  }));
  for (const char* name : {"silu", "sigmoid", "gelu", "gelu_tanh", "relu", "squared_relu"}) {
    cases.push_back(node_case(fmt::format("activation_{}", name), [=](CaseBuilder& b, int) {
      const ValueId x = b.input("x", random_tensor({DType::kFloat32, {kRows, 16}}, 3, 6.0));
      return b.builder.gated_activation(b.builder.activation(x, name), input(b, "up", {kRows, 16}), name);
    }));
  }
  cases.push_back(node_case("gated_activation_packed", [](CaseBuilder& b, int) {
    return b.builder.add_node(graph::Op::kGatedActivation, {input(b, "x", {kRows, 16})}, {{"activation", "silu"}})
        .value();
  }));
}

struct Mixture {
  std::string name;
  int ranks = 1;
  bool whole_experts = false;
  std::string activation = "silu";
  bool has_biases = false;
  bool routes_on_inputs = false;
};

/// 5 experts of 12 columns, in leaves of 4: rank 0 of 2 holds 3 experts, or 8 columns of each.
OracleCase mixture_case(const Mixture& mixture) {
  constexpr int64_t kExperts = 5, kColumns = 12, kHidden = 8;
  return node_case(
      mixture.name,
      [=](CaseBuilder& b, int rank) {
        const bool split = mixture.ranks > 1;
        Range experts{0, kExperts}, columns{0, kColumns};
        BlockSplit blocks = mixture.whole_experts ? BlockSplit{{0, 5}} : BlockSplit{{0, 3}};
        if (split && mixture.whole_experts) {
          experts = rank == 0 ? Range{0, 3} : Range{3, 5};
          blocks = {{0, 3, 5}};
        } else if (split) {
          columns = rank == 0 ? Range{0, 8} : Range{8, 12};
          blocks = {{0, 2, 3}};
        }
        const int64_t rows = experts.size() * columns.size(), outputs = experts.size() * kHidden;
        const ValueId x = input(b, "x", {kRows, kHidden});
        const ValueId route = b.builder.moe_route(input(b, "logits", {kRows, kExperts}), {.chosen = 2});
        std::vector<ValueId> operands{x, route, weight(b, "gate", {rows, kHidden}, rank),
                                      weight(b, "up", {rows, kHidden}, rank),
                                      weight(b, "down", {outputs, columns.size()}, rank)};
        if (mixture.has_biases) {
          operands.push_back(weight(b, "gate_bias", {rows}, rank));
          operands.push_back(weight(b, "up_bias", {rows}, rank));
          operands.push_back(weight(b, "down_bias", {outputs}, rank));
        }
        const ValueId roots = b.builder.moe_experts(operands, {.experts = experts,
                                                               .leaf_is_expert = mixture.whole_experts,
                                                               .split = blocks,
                                                               .block = mixture.whole_experts ? 1 : 4,
                                                               .activation = mixture.activation,
                                                               .limit = 0.6,
                                                               .alpha = 1.702,
                                                               .routes_on_inputs = mixture.routes_on_inputs});
        return b.builder.all_reduce(roots, blocks, DType::kFloat32);
      },
      mixture.ranks);
}

}  // namespace

std::vector<OracleCase> dense_cases() {
  std::vector<OracleCase> cases;
  add_tables(cases);
  add_products(cases);
  add_rowwise(cases);
  for (const Mixture& mixture :
       {Mixture{.name = "experts_gelu", .activation = "gelu"},
        Mixture{.name = "experts_clamped", .activation = "clamped_swiglu", .has_biases = true},
        Mixture{.name = "experts_on_inputs_tp2", .ranks = 2, .whole_experts = true, .routes_on_inputs = true},
        Mixture{.name = "experts_by_columns_tp2", .ranks = 2, .has_biases = true},
        Mixture{.name = "experts_whole_tp2", .ranks = 2, .whole_experts = true, .has_biases = true}}) {
    cases.push_back(mixture_case(mixture));
  }
  return cases;
}

}  // namespace lockstep::neuron
