#include "runtime/backends/cuda/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::cuda {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// Ranks of hosts a and b, `on_a` and `on_b` of them.
std::vector<device::RankPlace> places(int on_a, int on_b) {
  std::vector<device::RankPlace> all;
  for (int i = 0; i < on_a; ++i)
    all.push_back({.rank = i, .host = "a", .local_rank = i, .local_size = on_a, .node = 0});
  for (int i = 0; i < on_b; ++i) {
    all.push_back({.rank = on_a + i, .host = "b", .local_rank = i, .local_size = on_b, .node = 1});
  }
  return all;
}

TEST(Placement, GivesTheRanksOfAHostItsGpusInOrder) {
  const auto ranks = places(2, 3);
  const std::vector<int> gpus = {8, 8, 3, 3, 3};
  const device::DevicePlan plan = place_on_gpus(ranks, gpus, /*shares=*/false).value();
  EXPECT_THAT(plan.ordinals, ElementsAre(0, 1, 0, 1, 2));
  EXPECT_THAT(plan.devices, ElementsAre("cuda:0", "cuda:1", "cuda:0", "cuda:1", "cuda:2"));
  EXPECT_THAT(plan.warnings, IsEmpty());
  EXPECT_EQ(ranks_of_device(ranks, plan, 0), 1);  // host b's GPU 0 is another one
}

TEST(Placement, RefusesMoreRanksThanGpusUnlessTheyShare) {
  const auto ranks = places(1, 3);
  const std::vector<int> gpus = {1, 2, 2, 2};
  const Error error = place_on_gpus(ranks, gpus, /*shares=*/false).error();
  EXPECT_EQ(error.kind, ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.message, HasSubstr("host b: found 3 ranks and 2 visible GPUs"));
  const device::DevicePlan plan = place_on_gpus(ranks, gpus, /*shares=*/true).value();
  EXPECT_THAT(plan.ordinals, ElementsAre(0, 0, 1, 0));
  EXPECT_THAT(plan.warnings, ElementsAre(HasSubstr("3 ranks of host b share 2 GPUs")));
  EXPECT_EQ(ranks_of_device(ranks, plan, 1), 2);
  EXPECT_EQ(ranks_of_device(ranks, plan, 2), 1);
}

TEST(Placement, LeavesAMissingDriverToTheStart) {
  const std::vector<int> gpus = {0, 0};
  EXPECT_THAT(place_on_gpus(places(2, 0), gpus, /*shares=*/false).value().ordinals, ElementsAre(0, 1));
}

}  // namespace
}  // namespace lockstep::cuda
