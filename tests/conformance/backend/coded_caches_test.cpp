// Caches of keys and values in 8 bits: rows with their scale, and attention over them.
#include <limits>

#include "tests/conformance/backend/attention_cases.h"
#include "tests/conformance/backend/backend_test.h"

namespace lockstep::conformance {
namespace {

using graph::ValueId;

constexpr DType kCodes[] = {DType::kInt8, DType::kUInt8};

class CodedCaches : public EveryBackendAndType {
 protected:
  void SetUp() override {
    EveryBackendAndType::SetUp();
    if (IsSkipped()) return;
    if (!capabilities().coded_caches) GTEST_SKIP() << backend().name << " keeps no caches in 8 bits";
  }
  device::Capabilities capabilities() const { return backend().make(/*threads=*/1).value()->capabilities(); }

  AttentionStep step_of(Heads heads, int64_t slots, DType codes, std::string kernel = "prefill") const {
    return {.dtype = dtype(), .heads = std::move(heads), .slots = slots, .kernel = std::move(kernel), .cache = codes};
  }

  /// One unit in the last place of the result, and what integers of 16 bits leave of queries and weights.
  double tolerance() const { return tolerance_of(dtype()) + (dtype() == DType::kFloat32 ? 0 : 0x1p-14); }

  /// Appends `rows` [T, 2 · 5] to a cache of 3 slots; every state as it is then.
  Contents appended(const TensorData& rows, DType codes, std::vector<int32_t> slot,
                    std::vector<int32_t> position) const {
    const int64_t count = rows.type.shape[0];
    CaseBuilder b({.name = "test", .ranks = 1, .rank = 0, .rows = count, .slots = 3});
    const ValueId slots = b.input("slot", int_tensor({count}, std::move(slot)));
    const ValueId positions = b.input("position", int_tensor({count}, std::move(position)));
    std::vector<ValueId> caches;
    for (const char* name : {"kv.0.k", "kv.0.v"}) {
      caches.push_back(b.cache(name, {codes, {3, 2, 7, 5 + 4}}));
      b.builder.kv_append(b.input(std::string("rows of ") + name, rows), caches.back(), slots, positions);
    }
    const ValueId q = b.input("q", random({count, 2 * 5}, 9));
    graph::AttentionOptions options{.head_map = {0, 1}, .scale = 1.0, .kernel = "prefill"};
    b.builder.output("y", b.builder.attention(q, caches[0], caches[1], slots, positions, std::move(options)));
    const Case c = std::move(b).finish();
    const Outcome outcome = run_on(backend(), c);
    const Outcome expected = run_on_scalar_model(c);
    for (const auto& [name, data] : expected.states) EXPECT_TRUE(is_same(outcome.states.at(name), data)) << name;
    return outcome.states;
  }
};
LOCKSTEP_FOR_EVERY_BACKEND_AND_TYPE(CodedCaches);

TEST_P(CodedCaches, HoldRowsAsCodesAndTheirScaleWhereSlotAndPositionSay) {
  for (const DType codes : kCodes) {
    for (const double scale : {1.0, 1e-4, 300.0}) {
      SCOPED_TRACE(testing::Message() << to_string(codes) << " " << scale);
      appended(random({5, 2 * 5}, 1, scale), codes, {2, 0, -1, 2, 0}, {0, 6, 0, 1, 3});
    }
  }
}

TEST_P(CodedCaches, GiveARowWithNaNOrInfinityTheScaleNaNAndARowOfZerosTheScaleZero) {
  const double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();
  for (const DType codes : kCodes) {
    const auto states =
        appended(tensor(dtype(), {2, 10}, {1, nan, 3, 4, 5, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, -infinity}),
                 codes, {0, 0}, {0, 1});
    const std::vector<double> bytes = numbers_of(states.at("kv.0.k"));
    for (size_t i = 0; i < 7; ++i) EXPECT_EQ(bytes[i], 0) << i;  // codes, and a float's lower bytes
    EXPECT_EQ(bytes[7], 0xc0);
    EXPECT_EQ(bytes[8], 0x7f);
    const size_t next_head = 7 * 9;
    for (size_t i = 0; i < 9; ++i) EXPECT_EQ(bytes[next_head + i], 0) << i;
  }
}

TEST_P(CodedCaches, AreAttendedToOverLengthsAroundTileBorders) {
  const Heads heads{.map = {0, 0, 0, 1, 1, 1}, .cache = 2, .dim = 16};
  for (const DType codes : kCodes) {
    for (const int32_t length : {1, 31, 63, 64, 65}) {
      SCOPED_TRACE(testing::Message() << to_string(codes) << " " << length);
      expect_conforms(backend(), append_and_attend(step_of(heads, 3, codes), interleaved({3, length, 5})), tolerance());
    }
  }
}

TEST_P(CodedCaches, HaveHeadsOfAnySizeInGroupsOfAnySize) {
  for (const Heads& heads :
       {Heads{{0}, 1, 5}, Heads{{0, 0, 0, 1, 1}, 2, 8}, Heads{{0, 1, 1, 1}, 2, 64}, Heads{{1, 0, 2}, 3, 10},
        Heads{{0, 1, 2, 3}, 4, 33}, Heads{std::vector<int64_t>(9), 1, 48}}) {
    for (const DType codes : kCodes) {
      SCOPED_TRACE(testing::Message() << to_string(codes) << " " << heads.query() << " heads of " << heads.dim);
      expect_conforms(backend(), append_and_attend(step_of(heads, 4, codes), interleaved({9, 1, 0, 34})), tolerance());
    }
  }
}

TEST_P(CodedCaches, ServeDecodeStepsAndEveryOptionOfScores) {
  const Heads heads{.map = {0, 0, 0, 1, 1}, .cache = 2, .dim = 16};
  for (const char* per_head : {"", "sinks", "slopes"}) {
    for (const double soft_cap : {0.0, 1.5}) {
      const DType codes = kCodes[soft_cap > 0 ? 0 : 1];
      for (const DType also : {codes, DType::kInt8}) {
        SCOPED_TRACE(testing::Message() << to_string(also) << " per head: " << per_head << ", cap " << soft_cap);
        AttentionStep step = step_of(heads, 3, also);
        step.per_head = per_head;
        step.soft_cap = soft_cap;
        AttentionStep next = step;
        next.kernel = "decode";
        next.seed = 2;
        expect_sequence_conforms(
            backend(),
            {append_and_attend(step, interleaved({33, 1, 65})), append_and_attend(next, {{0, -1, 2}, {33, 0, 65}})},
            tolerance());
      }
    }
  }
}

TEST_P(CodedCaches, NeverShowARowBeyondThePosition) {
  const Heads heads{.map = {0}, .cache = 1, .dim = 4};
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const DType codes : kCodes) {
    for (const char* kernel : {"prefill", "decode"}) {
      Case c = append_and_attend(step_of(heads, 3, codes, kernel), {{0, 0, 0}, {0, 1, 2}});
      for (const char* rows : {"k", "v"}) {
        c.inputs.at(rows) = tensor(dtype(), {3, 4}, {1, 2, 3, 4, 4, 3, 2, 1, nan, nan, nan, nan});
      }
      const std::vector<double> y = numbers_of(run_on(backend(), c).outputs.at("y"));
      for (size_t i = 0; i < 8; ++i) EXPECT_TRUE(std::isfinite(y[i])) << kernel << " " << i;
      for (size_t i = 8; i < 12; ++i) EXPECT_TRUE(std::isnan(y[i])) << kernel << " " << i;
    }
  }
}

TEST_P(CodedCaches, CarryNaNOfAValueAlone) {
  Case c = append_and_attend(step_of({.map = {0}, .cache = 1, .dim = 4}, 1, DType::kInt8), {{0, 0}, {0, 1}});
  const double nan = std::numeric_limits<double>::quiet_NaN();
  c.inputs.at("v") = tensor(dtype(), {2, 4}, {1, 2, 3, 4, 4, nan, 2, 1});
  const std::vector<double> y = numbers_of(run_on(backend(), c).outputs.at("y"));
  for (size_t i = 0; i < 4; ++i) EXPECT_TRUE(std::isfinite(y[i])) << i;
  for (size_t i = 4; i < 8; ++i) EXPECT_TRUE(std::isnan(y[i])) << i;
}

TEST_P(CodedCaches, StayFiniteWhereScoresAreLarge) {
  const Heads heads{.map = {0, 0}, .cache = 1, .dim = 8};
  Case c = append_and_attend(step_of(heads, 1, DType::kInt8), interleaved({40}));
  c.inputs.at("q") = random_tensor(c.inputs.at("q").type, 7, /*scale=*/100);
  c.inputs.at("k") = random_tensor(c.inputs.at("k").type, 8, /*scale=*/100);
  // Scores reach 10⁴, where integers of 16 bits for a query leave up to 0.3: the shares of near ties differ.
  const std::vector<double> y = numbers_of(run_on(backend(), c).outputs.at("y"));
  for (const double v : y) EXPECT_LE(std::abs(v), 2.1);
}

TEST_P(CodedCaches, GiveTheSameBitsInAnyChunk) {
  if (!capabilities().invariant_sums) GTEST_SKIP() << "sums vary";
  for (const DType codes : kCodes) {
    AttentionStep step = step_of({.map = {0, 0, 0, 1, 1, 1, 1}, .cache = 2, .dim = 20}, 1, codes);
    step.capacity = 140;
    Rows all;
    for (int32_t position = 0; position < 140; ++position) all.add(0, position);
    const Case whole = append_and_attend(step, all);
    const std::vector<double> expected = numbers_of(run_on(backend(), whole).outputs.at("y"));
    const auto rows_of = [&](const char* name, int64_t begin, int64_t end) {
      const TensorData& rows = whole.inputs.at(name);
      const auto bytes = static_cast<std::ptrdiff_t>(rows.bytes.size()) / all.size();
      return TensorData{{dtype(), {end - begin, rows.type.shape[1]}},
                        {rows.bytes.begin() + begin * bytes, rows.bytes.begin() + end * bytes}};
    };
    for (const int64_t chunk : {1, 7, 35}) {
      step.kernel = chunk == 1 ? "decode" : "prefill";
      Rows few;
      for (int64_t t = 0; t < chunk; ++t) few.add(0, 0);
      Session session(backend(), {append_and_attend(step, few).graph}, nullptr, /*threads=*/2);
      for (int64_t begin = 0; begin < all.size(); begin += chunk) {
        std::vector<int32_t> positions(all.position.begin() + begin, all.position.begin() + begin + chunk);
        session
            .run(0, {{"q", rows_of("q", begin, begin + chunk)},
                     {"k", rows_of("k", begin, begin + chunk)},
                     {"v", rows_of("v", begin, begin + chunk)},
                     {"slot", int_tensor({chunk}, std::vector<int32_t>(static_cast<size_t>(chunk)))},
                     {"position", int_tensor({chunk}, positions)}})
            .value();
        const std::vector<double> y = numbers_of(session.outcome(0).outputs.at("y"));
        const auto width = static_cast<int64_t>(y.size()) / chunk;
        for (size_t i = 0; i < y.size(); ++i) {
          ASSERT_EQ(y[i], expected[static_cast<size_t>(begin * width) + i])
              << to_string(codes) << ", chunks of " << chunk << " at " << begin << ", " << i;
        }
      }
    }
  }
}

TEST_P(CodedCaches, ServeLatentAttention) {
  if (!capabilities().latent_attention) GTEST_SKIP() << backend().name << " does not run latent attention";
  for (const DType codes : kCodes) {
    for (const auto& [query_heads, dim, value_columns] : {std::tuple{3, 24, 20}, {7, 31, 17}, {1, 576, 512}}) {
      SCOPED_TRACE(testing::Message() << to_string(codes) << " " << query_heads << " heads of " << dim);
      AttentionStep step =
          step_of({.map = std::vector<int64_t>(static_cast<size_t>(query_heads), 0), .dim = dim}, 3, codes);
      step.value_columns = value_columns;
      AttentionStep next = step;
      next.kernel = "decode";
      next.seed = 2;
      expect_sequence_conforms(
          backend(),
          {append_and_attend(step, interleaved({33, 1, 65})), append_and_attend(next, {{0, -1, 2}, {33, 0, 65}})},
          tolerance());
    }
  }
}

class CachesOfEveryBackend : public EveryBackend {};
LOCKSTEP_FOR_EVERY_BACKEND(CachesOfEveryBackend);

TEST_P(CachesOfEveryBackend, AreRefusedIn8BitsByNameWhereTheBackendHasNone) {
  const auto backend = GetParam().make(1).value();
  if (backend->capabilities().coded_caches) GTEST_SKIP() << GetParam().name << " has them";
  AttentionStep step{.heads = {.map = {0}, .dim = 8}, .cache = DType::kInt8};
  const Case c = append_and_attend(step, {{0}, {0}});
  const graph::Graph graphs[] = {c.graph};
  const device::StepGraph steps[] = {{c.graph, graphs}};
  const auto store = backend->make_store(steps);
  Error error;
  if (store.has_value()) {
    const auto executable = backend->compile(steps[0], *store.value(), {});
    ASSERT_TRUE(executable.has_error());
    error = executable.error();
  } else {
    error = store.error();
  }
  EXPECT_EQ(error.kind, ErrorKind::kUnsupported);
  EXPECT_THAT(error.message, testing::HasSubstr("omit --kv-dtype"));
}

}  // namespace
}  // namespace lockstep::conformance
