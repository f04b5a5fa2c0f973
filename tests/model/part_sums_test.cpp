// Sums of the ranks' parts, for every family: at several degrees they make those of the whole model, and a flipped bit
// in any tensor of any rank is found and named. Each golden of tests/model/goldens gives a model; its values are
// random.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <string>

#include "tests/model/golden.h"
#include "tests/shards/summed_ranks.h"

namespace lockstep::shards {
namespace {

using ::testing::Each;
using ::testing::Field;

class PartSumsOfEveryFamily : public ::testing::TestWithParam<std::string> {};

TEST_P(PartSumsOfEveryFamily, MakeTheWholeAndNameTensorAndRankOfAFlippedBit) {
  const checkpoint::ModelSpec spec =
      checkpoint::parse_spec(model::read_golden(LOCKSTEP_GOLDENS_DIR, GetParam()).config, GetParam()).value();
  const checkpoint::WeightSums expected = whole_sums(spec);
  constexpr int kDegrees[] = {2, 3};
  for (const size_t turn : model::cuts_in_turn(LOCKSTEP_GOLDENS_DIR, GetParam(), std::size(kDegrees), 1)) {
    const int ranks = kDegrees[turn];
    const SummedRanks all(spec, ranks, /*all_wanted=*/true);
    const SummedModel right = all.read_all();
    const SumComparison unharmed = compare_sums(right, &expected);
    ASSERT_EQ(unharmed.verified, std::ssize(expected.tensors)) << unharmed.example;
    ASSERT_FALSE(unharmed.suspect);
    for (int32_t tensor = 0; const auto& [name, shape] : all.tensors()) {
      for (int rank = 0; rank < ranks; ++rank) {
        if (!all.holds(rank, tensor)) continue;
        SCOPED_TRACE(name + " on rank " + std::to_string(rank) + " of " + std::to_string(ranks));
        SummedModel model = right;
        model.sums[static_cast<size_t>(rank)] = all.read(rank, FlippedWeights(name));
        EXPECT_EQ(compare_sums(model, &expected).suspect, tensor);
        const auto differing = differing_parts(model, tensor, all.again(right, tensor), &expected.tensors.at(name));
        EXPECT_FALSE(differing.empty());
        EXPECT_THAT(differing, Each(Field(&DifferingPart::rank, rank)));
      }
      ++tensor;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Goldens, PartSumsOfEveryFamily, ::testing::ValuesIn(model::golden_names(LOCKSTEP_GOLDENS_DIR)),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace lockstep::shards
