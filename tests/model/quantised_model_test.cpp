// Whole models of quantised checkpoints give the answers of transformers' model with the decoded weights.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/model/golden.h"

namespace lockstep::model {
namespace {

constexpr int64_t kCapacity = 48;

class QuantisedModel : public ::testing::TestWithParam<std::string> {
 protected:
  std::vector<RowAnswer> run(GroupOptions options) const {
    options.capacity = kCapacity;
    options.logits = actors::Logits::kWanted;
    auto answers = run_rows(model_.path(), options, golden_.rows());
    EXPECT_TRUE(answers.has_value()) << answers.error().message;
    return answers.has_value() ? answers.value().rows : std::vector<RowAnswer>();
  }

  /// Whether the checkpoint defines how products round their inputs; decoded matrices do not.
  bool rounds_activations() const {
    const auto spec = checkpoint::read_spec(model_.path() / "config.json").value();
    return spec.formats.usual && checkpoint::is_fixed(spec.formats.usual->activations);
  }

  const Golden golden_ = read_golden(LOCKSTEP_QUANTISED_GOLDENS_DIR, GetParam());
  const GoldenModel model_{golden_, {}};
};

TEST_P(QuantisedModel, MultipliesItsCodes) {
  record_quantised(golden_, "cpu");
  for (const int ranks : {1, 2, 3, 5}) {
    SCOPED_TRACE(::testing::Message() << ranks << " ranks");
    expect_golden(golden_, golden_.rows(), run({.ranks = ranks, .slots = 3, .chunk = 8}));
  }
}

TEST_P(QuantisedModel, DecodesItsWeightsToThoseOfTransformers) {
  if (rounds_activations()) GTEST_SKIP() << "the answers are those of rounded activations";
  for (const int ranks : {1, 2, 3, 5}) {
    SCOPED_TRACE(::testing::Message() << ranks << " ranks");
    expect_golden(golden_, golden_.rows(),
                  run({.ranks = ranks, .slots = 3, .chunk = 8, .coded = CodedMatrices::kDecoded}));
  }
}

TEST_P(QuantisedModel, MultipliesItsCodesOnTheReferenceBackend) {
  record_quantised(golden_, "reference");
  for (const int ranks : {1, 3}) {
    SCOPED_TRACE(::testing::Message() << ranks << " ranks");
    expect_golden(golden_, golden_.rows(), run({.backend = "reference", .ranks = ranks, .slots = 3, .chunk = 8}));
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, QuantisedModel, ::testing::ValuesIn(golden_names(LOCKSTEP_QUANTISED_GOLDENS_DIR)),
                         [](const auto& tested) { return tested.param; });

}  // namespace
}  // namespace lockstep::model
