// Rotary positions, the KV cache and attention.
#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/conformance/backend/attention_cases.h"
#include "tests/conformance/backend/backend_test.h"

namespace lockstep::conformance {
namespace {

using graph::ValueId;

class AttentionOperations : public EveryBackendAndType {
 protected:
  /// Also checks that results are rounded once, unless the backend rounds weights before.
  void expect_attention_conforms(const Case& c) const {
    if (std::ranges::count(backend().rounds_weights_of_attention, dtype()) == 0) return expect_case_conforms(c);
    expect_conforms(backend(), c, tolerance_of(dtype()));
  }
};
LOCKSTEP_FOR_EVERY_BACKEND_AND_TYPE(AttentionOperations);

/// A plain step of the test's type.
AttentionStep step_of(DType dtype, Heads heads, int64_t slots, std::string kernel = "prefill") {
  return {.dtype = dtype, .heads = std::move(heads), .slots = slots, .kernel = std::move(kernel)};
}

TEST_P(AttentionOperations, RotateWholeAndPartialHeadsByTheirPositions) {
  for (const auto& [heads, head_dim, rotated] :
       {std::tuple{1, 2, 2}, {3, 8, 8}, {2, 10, 6}, {5, 64, 64}, {2, 64, 16}}) {
    for (const auto& [scale, pairs] : {std::pair{1.0, "halves"}, {1.25, "halves"}, {1.25, "neighbours"}}) {
      SCOPED_TRACE(testing::Message() << heads << " heads of " << head_dim << ", " << rotated << " in " << pairs);
      CaseBuilder b({.name = "test", .ranks = 1, .rank = 0, .rows = 4, .slots = 1});
      const ValueId x = b.input("x", random({4, heads * head_dim}, 1, /*scale=*/2));
      const ValueId position = b.input("position", int_tensor({4}, {0, 1, 37, 200}));
      std::vector<float> frequencies;
      for (int i = 0; i < rotated / 2; ++i) {
        frequencies.push_back(static_cast<float>(std::pow(10000.0, -2.0 * i / rotated)));
      }
      const ValueId f = b.builder.constant("frequencies", frequencies);
      b.builder.output("y", b.builder.rope({x, position, f}, heads, scale, pairs));
      // The angle is rounded to f32: at position 200 that is up to 200 · 2⁻²⁴ of a turn's radian.
      expect_conforms(backend(), std::move(b).finish(), tolerance_of(dtype()) + 200 * 0x1p-23);
    }
  }
}

TEST_P(AttentionOperations, RotateByTheLongFrequenciesWhereTheSlotSaysSo) {
  CaseBuilder b({.name = "test", .ranks = 1, .rank = 0, .rows = 5, .slots = 3});
  const ValueId x = b.input("x", random({5, 2 * 6}, 1));
  const ValueId position = b.input("position", int_tensor({5}, {9, 9, 9, 0, 30}));
  const ValueId is_long = b.state("is_long", int_tensor({3}, {0, 1, -1}));
  const ValueId slot = b.input("slot", int_tensor({5}, {0, 1, 2, -1, 1}));
  const ValueId frequencies = b.builder.constant("short", {1.0f, 0.1f});
  const ValueId long_frequencies = b.builder.constant("long", {0.5f, 0.01f});
  b.builder.output("y", b.builder.rope({x, position, frequencies, long_frequencies, is_long, slot}, 2, 1.19));
  expect_conforms(backend(), std::move(b).finish(), tolerance_of(dtype()) + 200 * 0x1p-23);
}

TEST_P(AttentionOperations, ClampPositions) {
  CaseBuilder b({.name = "test", .ranks = 1, .rank = 0, .rows = 4, .slots = 1});
  b.builder.output("y", b.builder.clamp_positions(b.input("position", int_tensor({4}, {0, 6, 7, 900})), 6));
  EXPECT_THAT(ints_of(run_on(backend(), std::move(b).finish()).outputs.at("y")), testing::ElementsAre(0, 6, 6, 6));
}

TEST_P(AttentionOperations, AppendRowsWhereSlotAndPositionSayAndSkipPadding) {
  CaseBuilder b({.name = "test", .ranks = 1, .rank = 0, .rows = 5, .slots = 3});
  const ValueId slot = b.input("slot", int_tensor({5}, {2, 0, -1, 2, 0}));
  const ValueId position = b.input("position", int_tensor({5}, {0, 6, 0, 1, 3}));
  const ValueId rows = b.input("rows", random({5, 2 * 5}, 1));
  b.builder.kv_append(rows, b.cache("kv.0.k", {dtype(), {3, 2, 7, 5}}), slot, position);
  const Case c = std::move(b).finish();
  const Outcome outcome = run_on(backend(), c);
  EXPECT_TRUE(is_same(outcome.states.at("kv.0.k"), run_on_scalar_model(c).states.at("kv.0.k")));
}

TEST_P(AttentionOperations, AttendOverLengthsAroundTileBorders) {
  const Heads heads{.map = {0, 0, 0, 1, 1, 1}, .cache = 2, .dim = 16};
  for (const int32_t length : {1, 31, 32, 33, 63, 64, 65}) {
    SCOPED_TRACE(length);
    expect_attention_conforms(append_and_attend(step_of(dtype(), heads, 3), interleaved({3, length, 5})));
  }
}

TEST_P(AttentionOperations, MapQueryHeadsToCacheHeadsInGroupsOfAnySize) {
  for (const Heads& heads : {Heads{{0}, 1, 5}, Heads{{0, 0, 0, 1, 1}, 2, 8}, Heads{{0, 1, 1, 1}, 2, 64},
                             Heads{{1, 0, 2}, 3, 10}, Heads{{0, 1, 2, 3}, 4, 33}}) {
    SCOPED_TRACE(testing::Message() << heads.query() << " heads of " << heads.dim);
    expect_attention_conforms(append_and_attend(step_of(dtype(), heads, 4), interleaved({9, 1, 0, 34})));
  }
}

TEST_P(AttentionOperations, DecodeOneRowPerSlotOverWhatPrefillAppended) {
  const Heads heads{.map = {0, 0, 0, 1, 1}, .cache = 2, .dim = 16};
  const std::vector<int32_t> lengths = {31, 64, 7, 32, 65, 1};
  const auto slots = static_cast<int64_t>(lengths.size());
  const Rows next{{0, 1, -1, 3, 4, 5}, {31, 64, 0, 32, 65, 1}};
  expect_sequence_conforms(backend(),
                           {append_and_attend(step_of(dtype(), heads, slots), interleaved(lengths)),
                            append_and_attend(step_of(dtype(), heads, slots, "decode"), next)},
                           tolerance_of(dtype()));
}

TEST_P(AttentionOperations, GiveZerosForPaddingRows) {
  const Heads heads{.map = {0, 0}, .cache = 1, .dim = 8};
  for (const char* kernel : {"prefill", "decode"}) {
    const Case c = append_and_attend(step_of(dtype(), heads, 2, kernel), {{-1, 1}, {0, 0}});
    const std::vector<double> y = numbers_of(run_on(backend(), c).outputs.at("y"));
    for (size_t i = 0; i < 16; ++i) EXPECT_EQ(y[i], 0.0) << kernel << " " << i;
    for (size_t i = 16; i < 32; ++i) EXPECT_NE(y[i], 0.0) << kernel << " " << i;  // one position: the value itself
  }
}

TEST_P(AttentionOperations, NeverLookBeyondTheRowsPosition) {
  const Heads heads{.map = {0}, .cache = 1, .dim = 4};
  for (const char* kernel : {"prefill", "decode"}) {
    Case c = append_and_attend(step_of(dtype(), heads, 3, kernel), {{0, 0, 0}, {0, 1, 2}});
    const double nan = std::numeric_limits<double>::quiet_NaN();
    for (const char* rows : {"k", "v"}) {
      c.inputs.at(rows) = tensor(dtype(), {3, 4}, {1, 2, 3, 4, 4, 3, 2, 1, nan, nan, nan, nan});
    }
    const std::vector<double> y = numbers_of(run_on(backend(), c).outputs.at("y"));
    for (size_t i = 0; i < 8; ++i) EXPECT_TRUE(std::isfinite(y[i])) << kernel << " " << i;
    for (size_t i = 8; i < 12; ++i) EXPECT_TRUE(std::isnan(y[i])) << kernel << " " << i;
  }
}

TEST_P(AttentionOperations, StayFiniteWhereScoresAreLarge) {
  const Heads heads{.map = {0, 0}, .cache = 1, .dim = 8};
  Case c = append_and_attend(step_of(dtype(), heads, 1), interleaved({40}));
  c.inputs.at("q") = random_tensor(c.inputs.at("q").type, 7, /*scale=*/100);
  c.inputs.at("k") = random_tensor(c.inputs.at("k").type, 8, /*scale=*/100);
  // Scores reach 10⁴, where one unit of f32 is 10⁻³: the shares of near ties differ by that much.
  expect_conforms(backend(), c, tolerance_of(dtype()) + 4e-3);
}

TEST_P(AttentionOperations, CapScoresAndAddSlopesAndSinks) {
  const Heads heads{.map = {0, 0, 0, 1, 1}, .cache = 2, .dim = 16};
  for (const char* per_head : {"", "sinks", "slopes"}) {
    for (const double soft_cap : {0.0, 1.5}) {
      SCOPED_TRACE(testing::Message() << "per head: " << per_head << ", cap " << soft_cap);
      AttentionStep step = step_of(dtype(), heads, 3);
      step.per_head = per_head;
      step.soft_cap = soft_cap;
      step.bound = 66;
      AttentionStep next = step;
      next.kernel = "decode";
      next.seed = 2;
      expect_sequence_conforms(
          backend(),
          {append_and_attend(step, interleaved({33, 1, 65})), append_and_attend(next, {{0, -1, 2}, {33, 0, 65}})},
          tolerance_of(dtype()));
    }
  }
}

/// What latent attention is made of.
class LatentAttention : public EveryBackendAndType {
 protected:
  void SetUp() override {
    EveryBackendAndType::SetUp();
    if (IsSkipped()) return;
    if (!backend().make(/*threads=*/1).value()->capabilities().latent_attention) {
      GTEST_SKIP() << backend().name << " does not run latent attention";
    }
  }
};
LOCKSTEP_FOR_EVERY_BACKEND_AND_TYPE(LatentAttention);

TEST_P(LatentAttention, TakesTheFirstColumnsOfTheKeysAsValues) {
  const std::vector<int32_t> lengths = {33, 1, 65};
  const Rows next{{0, -1, 2}, {33, 0, 65}};
  for (const auto& [query_heads, dim, value_columns] :
       {std::tuple{1, 5, 4}, {3, 24, 20}, {5, 32, 32}, {7, 31, 17}, {20, 40, 32}, {3, 576, 512}}) {
    for (const int64_t window : {0, 20}) {
      SCOPED_TRACE(testing::Message() << query_heads << " heads of " << dim << ", " << value_columns
                                      << " columns of values, window " << window);
      AttentionStep step{.dtype = dtype(),
                         .heads = {.map = std::vector<int64_t>(static_cast<size_t>(query_heads), 0), .dim = dim},
                         .slots = 3,
                         .window = window,
                         .value_columns = value_columns};
      AttentionStep decode = step;
      decode.kernel = "decode";
      decode.seed = 2;
      expect_sequence_conforms(backend(),
                               {append_and_attend(step, interleaved(lengths)), append_and_attend(decode, next)},
                               tolerance_of(dtype()));
    }
  }
}

TEST_P(LatentAttention, GivesTheSameBitsInAnyChunk) {
  if (!backend().make(/*threads=*/1).value()->capabilities().invariant_sums) GTEST_SKIP() << "sums vary";
  AttentionStep step{.dtype = dtype(), .heads = {.map = {0, 0, 0}, .dim = 24}, .value_columns = 20};
  Rows all;
  for (int32_t position = 0; position < 70; ++position) all.add(0, position);
  const Case whole = append_and_attend(step, all);
  const std::vector<double> expected = numbers_of(run_on(backend(), whole).outputs.at("y"));
  step.kernel = "decode";
  const Case one = append_and_attend(step, {{0}, {0}});
  Session session(backend(), {one.graph});
  const auto row_of = [&](const char* name, int64_t t) {
    const TensorData& rows = whole.inputs.at(name);
    const size_t bytes = rows.bytes.size() / static_cast<size_t>(all.size());
    const auto first = rows.bytes.begin() + static_cast<std::ptrdiff_t>(bytes) * t;
    return TensorData{one.inputs.at(name).type, {first, first + static_cast<std::ptrdiff_t>(bytes)}};
  };
  for (int64_t t = 0; t < all.size(); ++t) {
    session
        .run(0, {{"q", row_of("q", t)},
                 {"k", row_of("k", t)},
                 {"slot", int_tensor({1}, {0})},
                 {"position", int_tensor({1}, {static_cast<int32_t>(t)})}})
        .value();
    const std::vector<double> y = numbers_of(session.outcome(0).outputs.at("y"));
    for (size_t i = 0; i < y.size(); ++i) {
      ASSERT_EQ(y[i], expected[static_cast<size_t>(t) * y.size() + i]) << "row " << t << ", column " << i;
    }
  }
}

TEST_P(LatentAttention, MultipliesEachHeadByItsOwnRowsOfTheWeight) {
  for (const auto& [rows, heads, inputs, outputs] :
       {std::tuple{1, 1, 7, 5}, {3, 5, 12, 24}, {9, 3, 33, 70}, {40, 2, 64, 16}, {5, 9, 20, 1}}) {
    SCOPED_TRACE(testing::Message() << rows << " rows, " << heads << " heads, " << inputs << " to " << outputs);
    CaseBuilder b({.name = "test", .ranks = 1, .rank = 0, .rows = rows, .slots = 1});
    const ValueId x = b.input("x", random({rows, heads * inputs}, 1));
    const ValueId w = b.weight("w", random({heads * outputs, inputs}, 2));
    b.builder.output("y", b.builder.head_linear(x, w, heads));
    expect_case_conforms(std::move(b).finish());
  }
}

TEST_P(LatentAttention, JoinsTheColumnsOfEachHead) {
  for (const auto& [heads, n, m] : {std::tuple{1, 24, 8}, {5, 3, 1}, {3, 16, 64}}) {
    CaseBuilder b({.name = "test", .ranks = 1, .rank = 0, .rows = 4, .slots = 1});
    const ValueId x = b.input("x", random({4, heads * n}, 1)), y = b.input("y", random({4, heads * m}, 2));
    b.builder.output("z", b.builder.join_heads(x, y, heads));
    expect_conforms(backend(), std::move(b).finish(), /*tolerance=*/0);
  }
}

TEST_P(AttentionOperations, LeaveToASinkMostOfWhatNoKeyDeserves) {
  AttentionStep step = step_of(dtype(), {.map = {0, 0}, .cache = 1, .dim = 4}, 1);
  step.per_head = "sinks";
  Case c = append_and_attend(step, {{0}, {0}});
  c.contents.at("sinks") = tensor(DType::kFloat32, {2}, {-30, 30});
  const std::vector<double> y = numbers_of(run_on(backend(), c).outputs.at("y"));
  const std::vector<double> v = numbers_of(c.inputs.at("v"));
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(y[i], v[i], 1e-3) << i;
  for (size_t i = 4; i < 8; ++i) EXPECT_NEAR(y[i], 0, 1e-3) << i;
}

}  // namespace
}  // namespace lockstep::conformance
