// Whole models on the backend for GPUs, over the stand-in of its driver: Hugging Face's tokens and logits for every
// golden, and the same bits at every degree, chunk and batch mix.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>

#include "tests/model/golden.h"
#include "tests/model/odd_models.h"
#include "tests/model/on_cuda.h"

namespace lockstep::model {
namespace {

constexpr int64_t kCapacity = 64;

class FamilyOnCuda : public ::testing::TestWithParam<ModelAndRanks> {};

TEST_P(FamilyOnCuda, GivesHuggingFacesTokensAndLogits) {
  const auto& [name, ranks] = GetParam();
  const Golden golden = read_golden(goldens_folder(), name);
  record(golden, {.ranks = ranks, .backend = "cuda"});
  expect_golden_on_stand_in(golden, {.ranks = ranks, .slots = 5, .chunk = 16, .capacity = kCapacity});
}

INSTANTIATE_TEST_SUITE_P(Families, FamilyOnCuda,
                         ::testing::Combine(::testing::ValuesIn(golden_names(goldens_folder())),
                                            ::testing::Values(1, 2, 3)),
                         name_of);

std::vector<Row> requests() {
  const auto prompt = [](int32_t first, int tokens) {
    std::vector<int32_t> ids;
    for (int32_t i = 0; i < tokens; ++i) ids.push_back(3 + (first + i * i) % 50);
    return ids;
  };
  std::vector<Row> rows = {{prompt(1, 1), {.max_new_tokens = 5}},
                           {prompt(2, 13), {.max_new_tokens = 4}},
                           {prompt(5, 37), {.max_new_tokens = 2}}};
  rows[1].parameters.sampling = {.do_sample = true, .temperature = 1.3f, .top_p = 0.9f, .seed = 7};
  return rows;
}

/// How a job is cut.
struct Cut {
  int ranks = 1;
  int64_t chunk = 64;
  int64_t slots = 3;
  std::vector<int> hosts = {};  // of each rank; empty: one
};

class InvarianceOnCuda : public ::testing::TestWithParam<std::tuple<OddModel, DType>> {
 protected:
  /// Expects tokens and logits of the whole job, to the bit, however it is cut.
  static void expect_answers_of_the_whole(std::initializer_list<Cut> cuts) {
    const auto& [model, dtype] = GetParam();
    const OddModelDirectory directory(model);
    const std::vector<Row> rows = requests();
    std::vector<RowAnswer> whole;
    for (const Cut& cut : cuts) {
      SCOPED_TRACE(fmt::format("{} ranks, chunk {}, {} slots", cut.ranks, cut.chunk, cut.slots));
      const auto answer = run_rows(directory.path(),
                                   on_stand_in({.ranks = cut.ranks,
                                                .slots = cut.slots,
                                                .chunk = cut.chunk,
                                                .capacity = kCapacity,
                                                .dtype = dtype,
                                                .logits = actors::Logits::kWanted,
                                                .hosts = cut.hosts,
                                                .weights = Weights::kRandom}),
                                   rows);
      ASSERT_TRUE(answer.has_value()) << answer.error().message;
      if (whole.empty()) whole = answer.value().rows;
      for (size_t row = 0; row < rows.size(); ++row) {
        const RowAnswer& found = answer.value().rows[row];
        EXPECT_EQ(found.tokens, whole[row].tokens) << "request " << row;
        ASSERT_FALSE(whole[row].logits.empty());
        ASSERT_EQ(found.logits.size(), whole[row].logits.size());
        EXPECT_TRUE(same_bits(found.logits, whole[row].logits)) << "logits of request " << row;
      }
    }
  }
};

TEST_P(InvarianceOnCuda, HoldsForEveryDegreeChunkAndMix) {
  expect_answers_of_the_whole({{}, {2, 7, 3}, {3, 64, 1}, {5, 16, 2}, {8, 3, 4}});
}

TEST_P(InvarianceOnCuda, HoldsOverSeveralHosts) {
  expect_answers_of_the_whole({{},
                               {2, 7, 3, {0, 1}},
                               {3, 64, 1, {0, 0, 1}},
                               {5, 16, 2, {0, 1, 0, 1, 2}},
                               {8, 3, 4, {0, 0, 0, 1, 1, 2, 2, 2}},
                               {8, 64, 3, {0, 0, 0, 0, 1, 1, 1, 1}}});
}

INSTANTIATE_TEST_SUITE_P(OddModels, InvarianceOnCuda,
                         ::testing::Combine(::testing::ValuesIn(odd_models()),
                                            ::testing::Values(DType::kFloat32, DType::kBFloat16, DType::kFloat16)),
                         [](const auto& tested) {
                           return fmt::format("{}_{}", std::get<0>(tested.param).name,
                                              to_string(std::get<1>(tested.param)));
                         });

}  // namespace
}  // namespace lockstep::model
