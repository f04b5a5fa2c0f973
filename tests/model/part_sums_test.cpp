// Sums of the ranks' parts, for every family: at several degrees they make those of the whole model, and a flipped bit
// in any tensor of any rank is found and named. Each golden of tests/model/goldens gives a model; its values are
// random.
#include <gtest/gtest.h>

#include <iterator>
#include <string>
#include <vector>

#include "tests/model/golden.h"
#include "tests/shards/summed_ranks.h"

namespace lockstep::shards {
namespace {

class PartSumsOfEveryFamily : public ::testing::TestWithParam<std::string> {};

TEST_P(PartSumsOfEveryFamily, MakeTheWholeAndNameTensorAndRankOfAFlippedBit) {
  const checkpoint::ModelSpec spec =
      checkpoint::parse_spec(model::read_golden(LOCKSTEP_GOLDENS_DIR, GetParam()).config, GetParam()).value();
  const checkpoint::WeightSums expected = whole_sums(spec);
  constexpr int kDegrees[] = {2, 3};
  std::vector<partition::ExpertSplit> splits = {partition::ExpertSplit::kColumns};
  if (spec.experts > 0) splits.push_back(partition::ExpertSplit::kWhole);
  for (const size_t turn : model::cuts_in_turn(LOCKSTEP_GOLDENS_DIR, GetParam(), std::size(kDegrees), 1)) {
    for (const partition::ExpertSplit experts : splits) {
      const SummedRanks all(spec, kDegrees[turn], /*all_wanted=*/true, experts);
      const SumComparison unharmed = compare_sums(all.read_all(), &expected);
      ASSERT_EQ(unharmed.verified, std::ssize(expected.tensors)) << unharmed.example;
      ASSERT_FALSE(unharmed.suspect);
      expect_flipped_bits_are_named(all, expected);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Goldens, PartSumsOfEveryFamily, ::testing::ValuesIn(model::golden_names(LOCKSTEP_GOLDENS_DIR)),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace lockstep::shards
