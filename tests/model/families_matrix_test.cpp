// Every model family gives Hugging Face's tokens and logits. Tests every golden of tests/model/goldens, at several
// tensor-parallel degrees, chunk sizes, batch shapes, file layouts and on both host backends.
//
// The ordinary suite runs each golden once per degree, phase and backend; these runs together have all chunk sizes,
// batch shapes and file layouts, and over the goldens all pairs of them. The suite Slow runs every combination.
//
// Each test records its subject (`Support`), which becomes a cell of docs/support.md.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "runtime/checkpoint/model_spec.h"
#include "tests/model/golden.h"

namespace lockstep::model {
namespace {

using Format = HashedModelLayout::Format;

constexpr int64_t kCapacity = 64;  // the longest prompt and its new tokens

// Below, at and beyond the window (8); fewer slots than prompts, so that the others queue and refill.
constexpr int64_t kChunks[] = {4, 8, 64};
constexpr int64_t kSlots[] = {1, 3, 5};

struct Files {
  const char* name;
  const char* description;
  HashedModelLayout layout;
};

constexpr Files kFiles[] = {{"one_bin", "bin", {.format = Format::kTorch}},
                            {"old_bin", "bin, before torch 1.6", {.format = Format::kOldTorch}},
                            {"sharded_bin", "bin, sharded", {.files = 3, .format = Format::kTorch}},
                            {"one_safetensors", "safetensors", {}},
                            {"sharded_safetensors", "safetensors, sharded", {.files = 3}}};

/// What differs between the runs of a golden beside phase, degree and backend.
struct Shape {
  int64_t chunk = 64, slots = 5;
  const Files* files = &kFiles[3];
};

/// Nine consecutive turns have every pair of chunk and slots, five every layout of files.
Shape shape_of(size_t turn) {
  return {.chunk = kChunks[turn % std::size(kChunks)],
          .slots = kSlots[(turn + turn / std::size(kChunks)) % std::size(kSlots)],
          .files = &kFiles[turn % std::size(kFiles)]};
}

const std::vector<std::string>& goldens() {
  static const std::vector<std::string> names = golden_names(LOCKSTEP_GOLDENS_DIR);
  return names;
}

/// The runs of a golden, in turns: prefill and decode at each degree, the reference backend, whole experts.
enum class FirstTurn { kPrefill = 0, kDecode = 4, kReference = 8, kWholeExperts = 10 };

using ModelAndRanks = std::tuple<std::string, int>;

std::string name_of(const ::testing::TestParamInfo<ModelAndRanks>& tested) {
  return fmt::format("{}_tp{}", std::get<0>(tested.param), std::get<1>(tested.param));
}

class FamilyMatrix : public ::testing::TestWithParam<ModelAndRanks> {
 protected:
  /// The shape of the run at this degree; every golden begins with another.
  Shape shape(FirstTurn first) const {
    const auto golden = std::ranges::find(goldens(), golden_.name) - goldens().begin();
    return shape_of(static_cast<size_t>(golden + static_cast<int>(first) + ranks_ - 1));
  }

  void expect_answers(const Shape& shape, GroupOptions options, const std::vector<Row>& rows) const {
    SCOPED_TRACE(::testing::Message() << "chunk " << shape.chunk << ", slots " << shape.slots << ", files "
                                      << shape.files->description);
    const GoldenModel model(golden_, shape.files->layout);
    options.ranks = ranks_;
    options.chunk = shape.chunk;
    options.slots = shape.slots;
    options.capacity = kCapacity;
    options.logits = actors::Logits::kWanted;
    const auto answers = run_rows(model.path(), options, rows);
    ASSERT_TRUE(answers.has_value()) << answers.error().message;
    expect_golden(golden_, rows, answers.value().rows);
  }

  const Golden golden_ = read_golden(LOCKSTEP_GOLDENS_DIR, std::get<0>(GetParam()));
  const int ranks_ = std::get<1>(GetParam());
};

TEST_P(FamilyMatrix, PrefillGivesHuggingFacesFirstTokenAndLogits) {
  const Shape own = shape(FirstTurn::kPrefill);
  record(golden_, {.phase = "prefill", .ranks = ranks_, .files = own.files->description});
  std::vector<Row> rows = golden_.rows();
  for (Row& row : rows) row.parameters.max_new_tokens = 1;
  expect_answers(own, {}, rows);
}

TEST_P(FamilyMatrix, DecodeGivesHuggingFacesTokensAndLogits) {
  const Shape own = shape(FirstTurn::kDecode);
  record(golden_, {.ranks = ranks_, .files = own.files->description});
  expect_answers(own, {}, golden_.rows());
}

INSTANTIATE_TEST_SUITE_P(Families, FamilyMatrix,
                         ::testing::Combine(::testing::ValuesIn(goldens()), ::testing::Values(1, 2, 3, 4)), name_of);

class FamilyOnReference : public FamilyMatrix {};

TEST_P(FamilyOnReference, GivesHuggingFacesTokensAndLogits) {
  const Shape own = shape(FirstTurn::kReference);
  record(golden_, {.ranks = ranks_, .files = own.files->description, .backend = "reference"});
  expect_answers(own, {.backend = "reference"}, golden_.rows());
}

INSTANTIATE_TEST_SUITE_P(Families, FamilyOnReference,
                         ::testing::Combine(::testing::ValuesIn(goldens()), ::testing::Values(1, 2)), name_of);

class FamilyWithWholeExperts : public FamilyMatrix {};

TEST_P(FamilyWithWholeExperts, GivesHuggingFacesTokensAndLogits) {
  const Shape own = shape(FirstTurn::kWholeExperts);
  record(golden_, {.ranks = ranks_, .files = own.files->description, .experts = "whole"});
  expect_answers(own, {.experts = partition::ExpertSplit::kWhole}, golden_.rows());
}

std::vector<std::string> goldens_with_experts() {
  std::vector<std::string> names = goldens();
  std::erase_if(names, [](const std::string& name) {
    return checkpoint::parse_spec(read_golden(LOCKSTEP_GOLDENS_DIR, name).config, name).value().experts == 0;
  });
  return names;
}

INSTANTIATE_TEST_SUITE_P(Families, FamilyWithWholeExperts,
                         ::testing::Combine(::testing::ValuesIn(goldens_with_experts()), ::testing::Values(1, 2, 3, 4)),
                         name_of);

/// Every chunk size with every number of slots, and every layout of files.
class FamilyInEveryShape : public FamilyMatrix {
 protected:
  void expect_answers_in_every_shape(const GroupOptions& options) const {
    for (const int64_t chunk : kChunks) {
      for (const int64_t slots : kSlots) expect_answers({chunk, slots}, options, golden_.rows());
    }
    for (const Files& files : kFiles) expect_answers({.files = &files}, options, golden_.rows());
  }
};

TEST_P(FamilyInEveryShape, GivesHuggingFacesTokensAndLogits) { expect_answers_in_every_shape({}); }

INSTANTIATE_TEST_SUITE_P(Slow, FamilyInEveryShape,
                         ::testing::Combine(::testing::ValuesIn(goldens()), ::testing::Values(1, 2, 3, 4)), name_of);

class WholeExpertsInEveryShape : public FamilyInEveryShape {};

TEST_P(WholeExpertsInEveryShape, GiveHuggingFacesTokensAndLogits) {
  expect_answers_in_every_shape({.experts = partition::ExpertSplit::kWhole});
}

INSTANTIATE_TEST_SUITE_P(Slow, WholeExpertsInEveryShape,
                         ::testing::Combine(::testing::ValuesIn(goldens_with_experts()), ::testing::Values(1, 2, 3, 4)),
                         name_of);

TEST(Shapes, OfEveryGoldenHaveEachPairOfChunkAndSlotsAndEachLayoutOfFiles) {
  for (size_t golden = 0; golden < goldens().size(); ++golden) {
    std::set<std::pair<int64_t, int64_t>> pairs;
    std::set<const Files*> files;
    for (size_t turn = golden; turn < golden + static_cast<size_t>(FirstTurn::kWholeExperts); ++turn) {
      const Shape shape = shape_of(turn);
      pairs.emplace(shape.chunk, shape.slots);
      files.insert(shape.files);
    }
    EXPECT_EQ(pairs.size(), std::size(kChunks) * std::size(kSlots)) << goldens()[golden];
    EXPECT_EQ(files.size(), std::size(kFiles)) << goldens()[golden];
  }
}

}  // namespace
}  // namespace lockstep::model
