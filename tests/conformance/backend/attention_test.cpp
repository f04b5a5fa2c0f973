// Rotary positions, the KV cache and attention.
#include <cmath>
#include <limits>

#include "tests/conformance/backend/backend_test.h"

namespace lockstep::conformance {
namespace {

using graph::ValueId;

class AttentionOperations : public EveryBackendAndType {};
LOCKSTEP_FOR_EVERY_BACKEND_AND_TYPE(AttentionOperations);

/// The token rows of some sequences: row t belongs to slot[t] and has position[t].
struct Rows {
  std::vector<int32_t> slot;
  std::vector<int32_t> position;

  int64_t size() const { return static_cast<int64_t>(slot.size()); }
};

/// All rows of slots 0, 1, … of these lengths, interleaved, with a padding row after every fifth.
Rows interleaved(const std::vector<int32_t>& lengths) {
  Rows rows;
  const int32_t longest = *std::max_element(lengths.begin(), lengths.end());
  for (int32_t position = 0; position < longest; ++position) {
    for (size_t s = 0; s < lengths.size(); ++s) {
      if (position >= lengths[s]) continue;
      rows.slot.push_back(static_cast<int32_t>(s));
      rows.position.push_back(position);
      if (rows.size() % 6 != 5) continue;
      rows.slot.push_back(-1);
      rows.position.push_back(0);
    }
  }
  return rows;
}

struct Heads {
  std::vector<int64_t> map;  // query head → cache head
  int64_t cache = 1;
  int64_t dim = 8;

  int64_t query() const { return static_cast<int64_t>(map.size()); }
};

constexpr int64_t kCapacity = 70;

/// Appends all rows to the caches and attends with those rows.
Case append_and_attend(DType dtype, const Rows& rows, const Heads& heads, int64_t slots, const std::string& kernel) {
  CaseBuilder b({.name = kernel, .ranks = 1, .rank = 0, .rows = rows.size(), .slots = slots});
  const TensorType cache{dtype, {slots, heads.cache, kCapacity, heads.dim}};
  const ValueId slot = b.input("slot", int_tensor({rows.size()}, rows.slot));
  const ValueId position = b.input("position", int_tensor({rows.size()}, rows.position));
  const ValueId q = b.input("q", random_tensor({dtype, {rows.size(), heads.query() * heads.dim}}, 1, 2));
  const ValueId k = b.input("k", random_tensor({dtype, {rows.size(), heads.cache * heads.dim}}, 2, 2));
  const ValueId v = b.input("v", random_tensor({dtype, {rows.size(), heads.cache * heads.dim}}, 3, 2));
  const ValueId keys = b.cache("kv.0.k", cache);
  const ValueId values = b.cache("kv.0.v", cache);
  b.builder.kv_append(k, keys, slot, position);
  b.builder.kv_append(v, values, slot, position);
  const double scale = 1 / std::sqrt(static_cast<double>(heads.dim));
  b.builder.output("y", b.builder.attention(q, keys, values, slot, position, heads.map, scale, kernel));
  return std::move(b).finish();
}

TEST_P(AttentionOperations, RotateWholeAndPartialHeadsByTheirPositions) {
  for (const auto& [heads, head_dim, rotated] :
       {std::tuple{1, 2, 2}, {3, 8, 8}, {2, 10, 6}, {5, 64, 64}, {2, 64, 16}}) {
    for (const double scale : {1.0, 1.25}) {
      SCOPED_TRACE(testing::Message() << heads << " heads of " << head_dim << ", " << rotated << " rotated");
      CaseBuilder b({.name = "test", .ranks = 1, .rank = 0, .rows = 4, .slots = 1});
      const ValueId x = b.input("x", random({4, heads * head_dim}, 1, /*scale=*/2));
      const ValueId position = b.input("position", int_tensor({4}, {0, 1, 37, 200}));
      std::vector<float> frequencies;
      for (int i = 0; i < rotated / 2; ++i) {
        frequencies.push_back(static_cast<float>(std::pow(10000.0, -2.0 * i / rotated)));
      }
      const ValueId f = b.builder.constant("frequencies", frequencies);
      b.builder.output("y", b.builder.rope(x, position, f, heads, scale));
      // The angle is rounded to f32: at position 200 that is up to 200 · 2⁻²⁴ of a turn's radian.
      expect_conforms(backend(), std::move(b).finish(), tolerance_of(dtype()) + 200 * 0x1p-23);
    }
  }
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
    expect_case_conforms(append_and_attend(dtype(), interleaved({3, length, 5}), heads, 3, "prefill"));
  }
}

TEST_P(AttentionOperations, MapQueryHeadsToCacheHeadsInGroupsOfAnySize) {
  for (const Heads& heads : {Heads{{0}, 1, 5}, Heads{{0, 0, 0, 1, 1}, 2, 8}, Heads{{0, 1, 1, 1}, 2, 64},
                             Heads{{1, 0, 2}, 3, 10}, Heads{{0, 1, 2, 3}, 4, 33}}) {
    SCOPED_TRACE(testing::Message() << heads.query() << " heads of " << heads.dim);
    expect_case_conforms(append_and_attend(dtype(), interleaved({9, 1, 0, 34}), heads, 4, "prefill"));
  }
}

TEST_P(AttentionOperations, DecodeOneRowPerSlotOverWhatPrefillAppended) {
  const Heads heads{.map = {0, 0, 0, 1, 1}, .cache = 2, .dim = 16};
  const std::vector<int32_t> lengths = {31, 64, 7, 32, 65, 1};
  const auto slots = static_cast<int64_t>(lengths.size());
  const Case prefill = append_and_attend(dtype(), interleaved(lengths), heads, slots, "prefill");
  const Rows next{{0, 1, -1, 3, 4, 5}, {31, 64, 0, 32, 65, 1}};
  const Case decode = append_and_attend(dtype(), next, heads, slots, "decode");
  const auto run_both = [&](const BackendUnderTest& backend) {
    Session session(backend, {prefill.graph, decode.graph});
    session.run(0, prefill.inputs).value();
    session.run(1, decode.inputs).value();
    return session.outcome(1);
  };
  ScalarModel model;
  model.run({&prefill.graph, 1}, {&prefill.inputs, 1});
  const Outcome expected = model.run({&decode.graph, 1}, {&decode.inputs, 1}).front();
  const Outcome actual = run_both(backend());
  expect_near(actual, expected, tolerance_of(dtype()), "against the scalar model");
  expect_near(actual, run_both(reference_backend()), tolerance_of(dtype()), "against the reference backend");
}

TEST_P(AttentionOperations, GiveZerosForPaddingRows) {
  const Heads heads{.map = {0, 0}, .cache = 1, .dim = 8};
  for (const char* kernel : {"prefill", "decode"}) {
    const Case c = append_and_attend(dtype(), {{-1, 1}, {0, 0}}, heads, 2, kernel);
    const std::vector<double> y = numbers_of(run_on(backend(), c).outputs.at("y"));
    for (size_t i = 0; i < 16; ++i) EXPECT_EQ(y[i], 0.0) << kernel << " " << i;
    for (size_t i = 16; i < 32; ++i) EXPECT_NE(y[i], 0.0) << kernel << " " << i;  // one position: the value itself
  }
}

TEST_P(AttentionOperations, NeverLookBeyondTheRowsPosition) {
  const Heads heads{.map = {0}, .cache = 1, .dim = 4};
  for (const char* kernel : {"prefill", "decode"}) {
    Case c = append_and_attend(dtype(), {{0, 0, 0}, {0, 1, 2}}, heads, 3, kernel);
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
  Case c = append_and_attend(dtype(), interleaved({40}), heads, 1, "prefill");
  c.inputs.at("q") = random_tensor(c.inputs.at("q").type, 7, /*scale=*/100);
  c.inputs.at("k") = random_tensor(c.inputs.at("k").type, 8, /*scale=*/100);
  // Scores reach 10⁴, where one unit of f32 is 10⁻³: the shares of near ties differ by that much.
  expect_conforms(backend(), c, tolerance_of(dtype()) + 4e-3);
}

}  // namespace
}  // namespace lockstep::conformance
