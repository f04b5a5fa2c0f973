// Whole steps of a two-layer model: prefill chunks, then decoding.
#include "tests/conformance/backend/backend_test.h"
#include "tests/conformance/backend/tiny_model.h"

namespace lockstep::conformance {
namespace {

class WholeSteps : public EveryBackendAndType {
 protected:
  /// Expects the same tokens, and logits that are equal to the bit where the backend promises sums that do not depend
  /// on how a step is cut, else near.
  void expect_equal_runs(const Transcript& actual, const Transcript& expected) const {
    const bool invariant = backend().make(1).value()->capabilities().invariant_sums;
    expect_near_runs(actual, expected, invariant ? 0.0 : tolerance());
  }
  void expect_near_runs(const Transcript& actual, const Transcript& expected, double allowed) const {
    ASSERT_EQ(actual.logits.size(), expected.logits.size());
    for (size_t s = 0; s < expected.logits.size(); ++s) {
      if (dtype() == DType::kFloat32 || allowed == 0.0) {
        EXPECT_EQ(actual.tokens[s], expected.tokens[s]) << "slot " << s;
      }
      // If roundings differ, one token may differ, and all later ones with it.
      size_t comparable = 0;
      while (comparable < expected.tokens[s].size() &&
             (comparable == 0 || actual.tokens[s][comparable - 1] == expected.tokens[s][comparable - 1])) {
        const TensorData& found = actual.logits[s].at(comparable);
        const TensorData& wanted = expected.logits[s].at(comparable);
        EXPECT_TRUE(allowed == 0.0 ? is_same(found, wanted) : is_near(found, wanted, allowed))
            << "slot " << s << " step " << comparable;
        ++comparable;
      }
      EXPECT_GT(comparable, 0u);
    }
  }

  /// The two models of the test's type.
  std::vector<TinyOptions> models() const {
    return {{.dtype = dtype()}, {.dtype = dtype(), .second_layer = SecondLayer::kWindowAndExperts}};
  }

  /// Some thirty roundings lie between the ids and the logits.
  double tolerance() const { return tolerance_of(dtype(), dtype() == DType::kFloat32 ? 10 : 8); }
};
LOCKSTEP_FOR_EVERY_BACKEND_AND_TYPE(WholeSteps);

const std::vector<std::vector<int32_t>> kPrompts = {
    {5, 9, 1, 30, 22, 7, 0, 36, 4, 4, 8}, {17}, {2, 3, 33, 21, 19, 6, 11, 2, 2, 25, 14, 28, 35, 10, 12, 1, 1}};
constexpr int kSteps = 6;

TEST_P(WholeSteps, GiveTheLogitsOfTheScalarModelAndOfTheReference) {
  for (const TinyOptions& options : models()) {
    const Transcript actual = generate_on(backend(), options, kPrompts, kSteps);
    for (const std::vector<int32_t>& tokens : actual.tokens) EXPECT_EQ(tokens.size(), static_cast<size_t>(kSteps));
    expect_near_runs(actual, generate_on_scalar_model(options, kPrompts, kSteps), tolerance());
    if (!compares_with_reference()) continue;
    expect_near_runs(actual, generate_on(reference_backend(), options, kPrompts, kSteps), tolerance());
  }
}

TEST_P(WholeSteps, DoNotDependOnTheChunk) {
  for (TinyOptions options : models()) {
    options.chunk = 16;
    const Transcript whole = generate_on(backend(), options, kPrompts, kSteps);
    for (const int64_t chunk : {1, 4, 7}) {
      SCOPED_TRACE(chunk);
      options.chunk = chunk;
      expect_equal_runs(generate_on(backend(), options, kPrompts, kSteps), whole);
    }
  }
}

TEST_P(WholeSteps, DoNotDependOnBatchMates) {
  for (TinyOptions options : models()) {
    const Transcript together = generate_on(backend(), options, kPrompts, kSteps);
    options.slots = 1;
    const Transcript alone = generate_on(backend(), options, {kPrompts[0]}, kSteps);
    expect_equal_runs(alone, {{together.tokens[0]}, {together.logits[0]}});
  }
}

TEST_P(WholeSteps, DoNotDependOnTheNumberOfRanks) {
  for (TinyOptions options : models()) {
    const Transcript one = generate_on(backend(), options, kPrompts, kSteps);
    for (const int ranks : {2, 3, 4}) {
      SCOPED_TRACE(ranks);
      options.ranks = ranks;
      expect_equal_runs(generate_on(backend(), options, kPrompts, kSteps), one);
    }
  }
}

TEST_P(WholeSteps, DoNotDependOnTheNumberOfThreads) {
  for (const TinyOptions& options : models()) {
    const Transcript one = generate_on(backend(), options, kPrompts, kSteps, /*threads=*/1);
    expect_equal_runs(generate_on(backend(), options, kPrompts, kSteps, /*threads=*/2), one);
  }
}

}  // namespace
}  // namespace lockstep::conformance
