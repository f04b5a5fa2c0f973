// Every model family gives Hugging Face's tokens and logits. Tests every golden of tests/model/goldens, at several
// tensor-parallel degrees, chunk sizes, batch shapes, file layouts and on both host backends.
//
// Each test records its subject (`Support`), which becomes a cell of docs/support.md.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iterator>

#include "runtime/checkpoint/model_spec.h"
#include "tests/model/golden.h"

namespace lockstep::model {
namespace {

using Format = HashedModelLayout::Format;

constexpr int64_t kCapacity = 64;  // the longest prompt and its new tokens

// Below, at and beyond the window (8); fewer slots than prompts, so that the others queue and refill.
constexpr int64_t kChunks[] = {4, 8, 64};
constexpr int64_t kSlots[] = {1, 3, 5};

void expect_answers(const Golden& golden, const std::filesystem::path& model, const GroupOptions& options,
                    const std::vector<Row>& rows) {
  SCOPED_TRACE(::testing::Message() << "chunk " << options.chunk << ", slots " << options.slots);
  const auto answers = run_rows(model, options, rows);
  ASSERT_TRUE(answers.has_value()) << answers.error().message;
  expect_golden(golden, answers.value().rows);
}

/// Three of the nine pairs of chunk and slots; three degrees make up all nine.
void expect_answers_of_several_shapes(const Golden& golden, const std::vector<Row>& rows, GroupOptions options) {
  const GoldenModel model(golden, {});
  for (size_t i = 0; i < std::size(kChunks); ++i) {
    options.chunk = kChunks[i];
    options.slots = kSlots[(i + static_cast<size_t>(options.ranks)) % std::size(kSlots)];
    expect_answers(golden, model.path(), options, rows);
  }
}

std::vector<std::string> goldens() { return golden_names(LOCKSTEP_GOLDENS_DIR); }

using ModelAndRanks = std::tuple<std::string, int>;

std::string name_of(const ::testing::TestParamInfo<ModelAndRanks>& tested) {
  return fmt::format("{}_tp{}", std::get<0>(tested.param), std::get<1>(tested.param));
}

class FamilyMatrix : public ::testing::TestWithParam<ModelAndRanks> {
 protected:
  const Golden golden_ = read_golden(LOCKSTEP_GOLDENS_DIR, std::get<0>(GetParam()));
  const int ranks_ = std::get<1>(GetParam());
};

TEST_P(FamilyMatrix, PrefillGivesHuggingFacesFirstTokenAndLogits) {
  record(golden_, {.phase = "prefill", .ranks = ranks_});
  std::vector<Row> rows = golden_.rows();
  for (Row& row : rows) row.parameters.max_new_tokens = 1;
  expect_answers_of_several_shapes(golden_, rows,
                                   {.ranks = ranks_, .capacity = kCapacity, .logits = actors::Logits::kWanted});
}

TEST_P(FamilyMatrix, DecodeGivesHuggingFacesTokensAndLogits) {
  record(golden_, {.ranks = ranks_});
  expect_answers_of_several_shapes(golden_, golden_.rows(),
                                   {.ranks = ranks_, .capacity = kCapacity, .logits = actors::Logits::kWanted});
}

INSTANTIATE_TEST_SUITE_P(Families, FamilyMatrix,
                         ::testing::Combine(::testing::ValuesIn(goldens()), ::testing::Values(1, 2, 3, 4)), name_of);

class FamilyOnReference : public FamilyMatrix {};

TEST_P(FamilyOnReference, GivesHuggingFacesTokensAndLogits) {
  record(golden_, {.ranks = ranks_, .backend = "reference"});
  const GoldenModel model(golden_, {});
  expect_answers(
      golden_, model.path(),
      {.backend = "reference", .ranks = ranks_, .slots = 5, .capacity = kCapacity, .logits = actors::Logits::kWanted},
      golden_.rows());
}

INSTANTIATE_TEST_SUITE_P(Families, FamilyOnReference,
                         ::testing::Combine(::testing::ValuesIn(goldens()), ::testing::Values(1, 2)), name_of);

class FamilyWithWholeExperts : public FamilyMatrix {};

TEST_P(FamilyWithWholeExperts, GivesHuggingFacesTokensAndLogits) {
  record(golden_, {.ranks = ranks_, .experts = "whole"});
  expect_answers_of_several_shapes(golden_, golden_.rows(),
                                   {.ranks = ranks_,
                                    .capacity = kCapacity,
                                    .experts = partition::ExpertSplit::kWhole,
                                    .logits = actors::Logits::kWanted});
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

struct Files {
  const char* name;
  const char* description;
  HashedModelLayout layout;
};

void PrintTo(const Files& files, std::ostream* out) { *out << files.description; }

constexpr Files kFiles[] = {{"one_bin", "bin", {.format = Format::kTorch}},
                            {"old_bin", "bin, before torch 1.6", {.format = Format::kOldTorch}},
                            {"sharded_bin", "bin, sharded", {.files = 3, .format = Format::kTorch}},
                            {"one_safetensors", "safetensors", {}},
                            {"sharded_safetensors", "safetensors, sharded", {.files = 3}}};

class FamilyFiles : public ::testing::TestWithParam<std::tuple<std::string, Files>> {};

TEST_P(FamilyFiles, GiveHuggingFacesTokens) {
  const auto& [name, files] = GetParam();
  const Golden golden = read_golden(LOCKSTEP_GOLDENS_DIR, name);
  record(golden, {.ranks = 2, .files = files.description});
  const GoldenModel model(golden, files.layout);
  expect_answers(golden, model.path(), {.ranks = 2, .slots = 5, .chunk = 64, .capacity = kCapacity}, golden.rows());
}

INSTANTIATE_TEST_SUITE_P(Families, FamilyFiles,
                         ::testing::Combine(::testing::ValuesIn(goldens()), ::testing::ValuesIn(kFiles)),
                         [](const auto& tested) {
                           return std::get<0>(tested.param) + "_" + std::get<1>(tested.param).name;
                         });

}  // namespace
}  // namespace lockstep::model
