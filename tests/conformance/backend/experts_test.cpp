// Mixture of experts: routing, and equal sums for any division of the experts.
#include <cmath>
#include <limits>
#include <optional>

#include "tests/conformance/backend/backend_test.h"

namespace lockstep::conformance {
namespace {

using graph::ValueId;

class Routes : public EveryBackend {};
LOCKSTEP_FOR_EVERY_BACKEND(Routes);

/// The routes of one row.
std::vector<double> route(const BackendUnderTest& backend, const std::vector<double>& logits, int64_t chosen) {
  const auto experts = static_cast<int64_t>(logits.size());
  CaseBuilder b({.name = "test", .ranks = 1, .rank = 0, .rows = 1, .slots = 1});
  b.builder.output(
      "y", b.builder.moe_route(b.input("logits", tensor(DType::kFloat32, {1, experts}, logits)), {.chosen = chosen}));
  return numbers_of(run_on(backend, std::move(b).finish()).outputs.at("y"));
}

TEST_P(Routes, GoToTheLowestExpertsAmongEqualOnes) {
  EXPECT_EQ(route(GetParam(), {1, 3, 3, 3, 0}, 2), (std::vector<double>{0, 0.5, 0.5, 0, 0}));
  EXPECT_EQ(route(GetParam(), {2, 2, 2, 2}, 1), (std::vector<double>{1, 0, 0, 0}));
  const std::vector<double> third = route(GetParam(), {-1, 5, -1, -1}, 2);
  EXPECT_GT(third[0], 0);
  EXPECT_EQ(third[2], 0);
}

TEST_P(Routes, AreTheSoftmaxOverTheChosenOnly) {
  for (const auto& [experts, chosen] : {std::pair{1, 1}, {4, 2}, {8, 8}, {32, 4}, {130, 7}}) {
    CaseBuilder b({.name = "test", .ranks = 1, .rank = 0, .rows = 9, .slots = 1});
    const ValueId logits = b.input("logits", random_tensor({DType::kFloat32, {9, experts}}, 4, /*scale=*/6));
    b.builder.output("y", b.builder.moe_route(logits, {.chosen = chosen}));
    expect_conforms(GetParam(), std::move(b).finish(), tolerance_of(DType::kFloat32));
  }
}

TEST_P(Routes, AreSharesOfTheSoftmaxOverAll) {
  for (const auto& [experts, chosen] : {std::pair{1, 1}, {4, 2}, {8, 8}, {33, 4}, {130, 7}}) {
    CaseBuilder b({.name = "test", .ranks = 1, .rank = 0, .rows = 9, .slots = 1});
    const ValueId logits = b.input("logits", random_tensor({DType::kFloat32, {9, experts}}, 4, /*scale=*/6));
    b.builder.output("y", b.builder.moe_route(logits, {.chosen = chosen, .over = "all"}));
    expect_conforms(GetParam(), std::move(b).finish(), tolerance_of(DType::kFloat32));
  }
}

TEST_P(Routes, FollowEveryRuleOfChoiceAndWeight) {
  using graph::RouteOptions;
  for (const bool has_bias : {false, true}) {
    for (const RouteOptions& options :
         {RouteOptions{.chosen = 3, .scores = "sigmoid"}, RouteOptions{.chosen = 2, .scores = "sigmoid", .over = "all"},
          RouteOptions{.chosen = 4, .least_sum = 0.75, .scale = 2.5}, RouteOptions{.chosen = 2, .over = "all"},
          RouteOptions{.chosen = 4, .scores = "sigmoid", .groups = 6, .kept_groups = 2, .group_score = "best_two"},
          RouteOptions{.chosen = 5, .over = "all", .groups = 3, .kept_groups = 2, .scale = 16.0},
          RouteOptions{.chosen = 3, .scores = "sigmoid", .groups = 12, .kept_groups = 3, .least_sum = 1e-20},
          RouteOptions{.chosen = 12, .scores = "sigmoid", .groups = 2, .kept_groups = 2, .group_score = "best_two"}}) {
      SCOPED_TRACE(testing::Message() << options.chosen << " of " << options.groups << " groups, bias " << has_bias);
      for (const int64_t experts : {12, 132}) {
        CaseBuilder b({.name = "test", .ranks = 1, .rank = 0, .rows = 9, .slots = 1});
        const ValueId logits = b.input("logits", random_tensor({DType::kFloat32, {9, experts}}, 4, /*scale=*/4));
        RouteOptions own = options;
        if (has_bias) own.bias = b.weight("bias", random_tensor({DType::kFloat32, {experts}}, 5, /*scale=*/0.5));
        b.builder.output("y", b.builder.moe_route(logits, own));
        expect_conforms(GetParam(), std::move(b).finish(), tolerance_of(DType::kFloat32));
      }
    }
  }
}

/// A layer of experts and how it is divided.
struct Layer {
  int64_t rows = 5;
  int64_t experts = 4;
  int64_t hidden = 10;
  int64_t columns = 13;  // of every expert
  int64_t chosen = 2;
  bool by_expert = false;
  int64_t block = 4;  // of a leaf of columns; the last one is narrower
  std::string activation = "silu";
  bool has_biases = false;
  bool routes_on_inputs = false;
  std::optional<graph::Rounding> rounding = std::nullopt;
  std::optional<WeightFormat> format = {};
  graph::Activations activations = graph::Activations::kAsTheyAre;

  int64_t leaves() const { return by_expert ? experts : (columns + block - 1) / block; }
};

/// Rows and columns of a matrix of `layer.experts` parts: rows [rows) of parts [parts), columns [columns).
TensorData part_of(const TensorData& whole, int64_t experts, Range parts, Range rows, Range columns) {
  const std::vector<double> all = numbers_of(whole);
  const int64_t width = whole.type.shape[1], height = whole.type.shape[0] / experts;
  std::vector<double> own;
  for (int64_t e = parts.begin; e < parts.end; ++e) {
    for (int64_t r = rows.begin; r < rows.end; ++r) {
      const auto row = all.begin() + (e * height + r) * width;
      own.insert(own.end(), row + columns.begin, row + columns.end);
    }
  }
  return tensor(whole.type.dtype, {parts.size() * rows.size(), columns.size()}, own);
}

/// The same as a list instead of a matrix of one column.
TensorData list_of(TensorData column) {
  column.type.shape = Shape({column.type.shape[0]});
  return column;
}

/// One rank's case; all ranks have the same x and logits.
Case case_of(const Layer& layer, DType dtype, const BlockSplit& split, int rank) {
  const Range leaves = split.range_of(rank);
  const Range experts = layer.by_expert ? leaves : Range{0, layer.experts};
  const Range columns = layer.by_expert ? Range{0, layer.columns}
                                        : Range{std::min(leaves.begin * layer.block, layer.columns),
                                                std::min(leaves.end * layer.block, layer.columns)};
  const Range hidden{0, layer.hidden};
  CaseBuilder b({.name = "test", .ranks = split.ranks(), .rank = rank, .rows = layer.rows, .slots = 1});
  const auto random = [&](uint64_t seed, int64_t rows_of_one, int64_t width, double scale) {
    return random_tensor({dtype, {layer.experts * rows_of_one, width}}, seed, scale);
  };
  const auto inner = [&](uint64_t seed) {
    return part_of(random(seed, layer.columns, layer.hidden, 1), layer.experts, experts, columns, hidden);
  };
  const auto inner_bias = [&](uint64_t seed) {
    return list_of(part_of(random(seed, layer.columns, 1, 2), layer.experts, experts, columns, {0, 1}));
  };
  const ValueId x = b.input("x", random_tensor({dtype, {layer.rows, layer.hidden}}, 1, 2));
  const ValueId logits = b.input("logits", random_tensor({DType::kFloat32, {layer.rows, layer.experts}}, 2, 4));
  std::vector<ValueId> operands{
      x, b.builder.moe_route(logits, {.chosen = layer.chosen}), b.weight("gate", inner(3), layer.format),
      b.weight("up", inner(4), layer.format),
      b.weight("down", part_of(random(5, layer.hidden, layer.columns, 1), layer.experts, experts, hidden, columns),
               layer.format)};
  if (layer.has_biases) {
    operands.push_back(b.weight("gate_bias", inner_bias(6)));
    operands.push_back(b.weight("up_bias", inner_bias(7)));
    const TensorData down_bias = random(8, layer.hidden, 1, 2);
    operands.push_back(b.weight("down_bias", list_of(part_of(down_bias, layer.experts, experts, hidden, {0, 1}))));
  }
  graph::ExpertOptions options{.experts = experts,
                               .leaf_is_expert = layer.by_expert,
                               .split = split,
                               .block = layer.by_expert ? 1 : layer.block,
                               .activation = layer.activation,
                               .routes_on_inputs = layer.routes_on_inputs,
                               .activations = layer.activations,
                               .rounding = layer.rounding};
  if (layer.activation == "clamped_swiglu") options.limit = 3, options.alpha = 1.702;
  const ValueId roots = b.builder.moe_experts(std::move(operands), options);
  b.builder.output("roots", roots);
  b.builder.output("sum", b.builder.all_reduce(roots, split, DType::kFloat32));
  b.builder.output("rounded", b.builder.all_reduce(roots, split, dtype));
  return std::move(b).finish();
}

class Experts : public EveryBackendAndType {
 protected:
  /// Values inside an expert are also rounded, and a sum of some of its terms is compared.
  double tolerance() const { return tolerance_of(dtype(), 2); }

  /// Values inside an expert are rounded to the type. Then most sums are as near as f32, except the rows where an
  /// element was rounded to its neighbour.
  void expect_rounded_inside(const Case& c) const {
    const std::vector<double> found = numbers_of(run_on(backend(), c).outputs.at("sum"));
    const std::vector<double> wanted = numbers_of(run_on_scalar_model(c).outputs.at("sum"));
    double scale = 0;
    for (const double v : wanted) scale = std::max(scale, std::abs(v));
    size_t far = 0;
    for (size_t i = 0; i < wanted.size(); ++i) far += std::abs(found[i] - wanted[i]) > 1e-5 * scale ? 1 : 0;
    EXPECT_LE(far, wanted.size() / 3);
  }
};
LOCKSTEP_FOR_EVERY_BACKEND_AND_TYPE(Experts);

TEST_P(Experts, SumTheirColumnsWithEveryActivation) {
  for (const char* activation : {"silu", "gelu", "gelu_tanh", "clamped_swiglu"}) {
    for (const bool has_biases : {false, true}) {
      for (const bool by_expert : {false, true}) {
        SCOPED_TRACE(testing::Message() << activation << (has_biases ? " with biases" : "") << " by expert "
                                        << by_expert);
        const Layer layer{.by_expert = by_expert, .activation = activation, .has_biases = has_biases};
        const Case c = case_of(layer, dtype(), BlockSplit{{0, layer.leaves()}}, 0);
        expect_conforms(backend(), c, tolerance());
        expect_rounded_inside(c);
      }
    }
  }
}

TEST_P(Experts, TakeRoutesOnTheirInputs) {
  for (const bool by_expert : {false, true}) {
    for (const int64_t rows : {5, 40}) {
      const Layer layer{.rows = rows, .chosen = 3, .by_expert = by_expert, .routes_on_inputs = true};
      expect_conforms(backend(), case_of(layer, dtype(), BlockSplit{{0, layer.leaves()}}, 0), tolerance());
    }
  }
}

TEST_P(Experts, RoundWhatTheyMultiply) {
  if (dtype() != DType::kFloat32) GTEST_SKIP() << "rounded inputs are float32";
  if (!backend().make(/*threads=*/1).value()->capabilities().rounded_experts)
    GTEST_SKIP() << "the backend refuses them";
  for (const graph::Rounding& rounding :
       {graph::Rounding{"int8", std::nullopt}, {"e4m3", std::nullopt}, {"e4m3", 16}, {"int8", 7}}) {
    for (const int64_t rows : {1, 5, 40}) {
      SCOPED_TRACE(testing::Message() << rounding.codes << " in groups of " << rounding.group.value_or(0) << ", "
                                      << rows << " rows");
      const Layer layer{.rows = rows, .columns = 40, .chosen = 3, .by_expert = true, .rounding = rounding};
      expect_conforms(backend(), case_of(layer, dtype(), BlockSplit{{0, layer.leaves()}}, 0), tolerance());
    }
  }
}

TEST_P(Experts, ComputeOddShapesAndExpertsThatNoRowMeets) {
  for (const Layer& layer :
       {Layer{.rows = 1, .experts = 1, .hidden = 1, .columns = 1, .chosen = 1},
        Layer{.rows = 1, .experts = 16, .hidden = 33, .columns = 65, .chosen = 1, .block = 16},  // 15 without a row
        Layer{.rows = 40, .experts = 3, .hidden = 64, .columns = 32, .chosen = 3, .block = 32},  // every row everywhere
        Layer{.rows = 17, .experts = 8, .hidden = 48, .columns = 96, .chosen = 2, .by_expert = true}}) {
    SCOPED_TRACE(testing::Message() << layer.rows << " rows, " << layer.experts << " experts");
    expect_conforms(backend(), case_of(layer, dtype(), BlockSplit{{0, layer.leaves()}}, 0), tolerance());
  }
}

TEST_P(Experts, SumToTheSameHoweverTheyAreDivided) {
  const bool invariant = backend().make(1).value()->capabilities().invariant_sums;
  for (const bool by_expert : {false, true}) {
    const Layer layer{.rows = 6, .experts = 5, .columns = 18, .by_expert = by_expert, .has_biases = true};
    const TensorData whole =
        run_on(backend(), case_of(layer, dtype(), BlockSplit{{0, layer.leaves()}}, 0)).outputs.at("sum");
    for (const BlockSplit& split : {BlockSplit{{0, 2, 5}}, BlockSplit{{0, 1, 4, 5}}, BlockSplit{{0, 0, 3, 5, 5}}}) {
      SCOPED_TRACE(testing::Message() << "by expert " << by_expert << " " << testing::PrintToString(split.bounds));
      ASSERT_EQ(split.leaves(), layer.leaves());
      std::vector<Case> cases;
      for (int rank = 0; rank < split.ranks(); ++rank) cases.push_back(case_of(layer, dtype(), split, rank));
      const std::vector<Outcome> actual = run_on_ranks(backend(), cases);
      const std::vector<Outcome> expected = run_on_scalar_model(cases);
      for (size_t r = 0; r < cases.size(); ++r) {
        expect_near(actual[r], expected[r], tolerance(), "rank " + std::to_string(r));
        EXPECT_TRUE(invariant ? is_same(actual[r].outputs.at("sum"), whole)
                              : is_near(actual[r].outputs.at("sum"), whole, tolerance()))
            << "rank " << r;
      }
    }
  }
}

TEST_P(Experts, MultiplyByWeightsInCodesHoweverTheyAreDivided) {
  const device::Capabilities capabilities = backend().make(1).value()->capabilities();
  if (capabilities.coded_weights != device::CodedWeights::kAll) {
    GTEST_SKIP() << backend().name << " does not multiply by all formats";
  }
  for (const WeightFormat& format :
       {WeightFormat{.bits = 4, .group = 8, .offset = GroupOffset::kZeros, .scale = ScaleType::kFloat16},
        WeightFormat{.bits = 8, .group = 12, .offset = GroupOffset::kMinima},
        WeightFormat{.kind = CodeKind::kE2M1, .bits = 4, .group = 32, .scale = ScaleType::kPowerOfTwo}}) {
    for (const auto activations : {graph::Activations::kAsTheyAre, graph::Activations::kInt8}) {
      for (const bool by_expert : {false, true}) {
        SCOPED_TRACE(testing::Message() << to_string(format) << " by expert " << by_expert << ", int8 "
                                        << (activations == graph::Activations::kInt8));
        const Layer layer{.rows = 11,
                          .experts = 5,
                          .hidden = 40,
                          .columns = 50,
                          .by_expert = by_expert,
                          .block = 12,
                          .has_biases = true,
                          .format = format,
                          .activations = activations};
        const Case together = case_of(layer, dtype(), BlockSplit{{0, layer.leaves()}}, 0);
        const TensorData whole = run_on(backend(), together).outputs.at("sum");
        if (compares_with_reference()) {
          EXPECT_TRUE(is_near(whole, run_on(reference_backend(), together).outputs.at("sum"), tolerance()));
        }
        const BlockSplit split{{0, 2, 5}};
        std::vector<Case> cases;
        for (int rank = 0; rank < split.ranks(); ++rank) cases.push_back(case_of(layer, dtype(), split, rank));
        for (const Outcome& outcome : run_on_ranks(backend(), cases)) {
          EXPECT_TRUE(capabilities.invariant_sums ? is_same(outcome.outputs.at("sum"), whole)
                                                  : is_near(outcome.outputs.at("sum"), whole, tolerance()));
        }
      }
    }
  }
}

TEST_P(Experts, GiveARowTheSameSumWhateverOtherRowsThereAre) {
  if (!backend().make(1).value()->capabilities().invariant_sums) GTEST_SKIP() << "sums of this backend vary";
  const Layer many{.rows = 23, .experts = 6, .hidden = 32, .columns = 40, .has_biases = true};
  const Case together = case_of(many, dtype(), BlockSplit{{0, many.leaves()}}, 0);
  const std::vector<double> expected = numbers_of(run_on(backend(), together).outputs.at("sum"));
  Layer one = many;
  one.rows = 1;
  const std::vector<double> x = numbers_of(together.inputs.at("x"));
  const std::vector<double> logits = numbers_of(together.inputs.at("logits"));
  Case alone = case_of(one, dtype(), BlockSplit{{0, one.leaves()}}, 0);
  for (int64_t t = 0; t < many.rows; t += 5) {
    alone.inputs.at("x") = tensor(dtype(), {1, 32}, {x.begin() + t * 32, x.begin() + (t + 1) * 32});
    alone.inputs.at("logits") = tensor(DType::kFloat32, {1, 6}, {logits.begin() + t * 6, logits.begin() + (t + 1) * 6});
    const std::vector<double> found = numbers_of(run_on(backend(), alone).outputs.at("sum"));
    EXPECT_EQ(found, std::vector<double>(expected.begin() + t * 32, expected.begin() + (t + 1) * 32)) << "row " << t;
  }
}

TEST_P(Experts, SkipWhatTheRouteLeavesOut) {
  // Expert 1 would make every sum infinite.
  Layer layer{.rows = 3, .experts = 2, .hidden = 4, .columns = 4, .chosen = 1};
  Case c = case_of(layer, dtype(), BlockSplit{{0, layer.leaves()}}, 0);
  c.inputs.at("logits") = tensor(DType::kFloat32, {3, 2}, {1, 0, 1, 0, 1, 1});
  std::vector<double> down = numbers_of(c.contents.at("down"));
  std::fill(down.begin() + 16, down.end(), std::numeric_limits<double>::infinity());
  c.contents.at("down") = tensor(dtype(), {8, 4}, down);
  for (const double v : numbers_of(run_on(backend(), c).outputs.at("sum"))) EXPECT_TRUE(std::isfinite(v));
}

}  // namespace
}  // namespace lockstep::conformance
