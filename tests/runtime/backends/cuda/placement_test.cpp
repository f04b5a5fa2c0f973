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

/// By rank, so many GPUs of unknown places.
std::vector<std::vector<GpuSite>> counts(const std::vector<int>& each) {
  std::vector<std::vector<GpuSite>> gpus;
  for (const int count : each) gpus.emplace_back(static_cast<size_t>(count));
  return gpus;
}

TEST(Placement, GivesTheRanksOfAHostItsGpusInOrder) {
  const auto ranks = places(2, 3);
  const auto gpus = counts({8, 8, 3, 3, 3});
  const device::DevicePlan plan = place_on_gpus(ranks, gpus, /*shares=*/false).value();
  EXPECT_THAT(plan.ordinals, ElementsAre(0, 1, 0, 1, 2));
  EXPECT_THAT(plan.devices, ElementsAre("cuda:0", "cuda:1", "cuda:0", "cuda:1", "cuda:2"));
  EXPECT_THAT(plan.warnings, IsEmpty());
  EXPECT_EQ(ranks_of_device(ranks, plan, 0), 1);  // host b's GPU 0 is another one
}

TEST(Placement, RefusesMoreRanksThanGpusUnlessTheyShare) {
  const auto ranks = places(1, 3);
  const auto gpus = counts({1, 2, 2, 2});
  const Error error = place_on_gpus(ranks, gpus, /*shares=*/false).error();
  EXPECT_EQ(error.kind, ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.message, HasSubstr("host b: found 3 ranks and 2 visible GPUs"));
  EXPECT_THAT(error.message, HasSubstr("start fewer ranks there, or add --share-devices"));
  const device::DevicePlan plan = place_on_gpus(ranks, gpus, /*shares=*/true).value();
  EXPECT_THAT(plan.ordinals, ElementsAre(0, 0, 1, 0));
  EXPECT_THAT(plan.warnings, ElementsAre(HasSubstr("3 ranks of host b share 2 GPUs")));
  EXPECT_EQ(ranks_of_device(ranks, plan, 1), 2);
  EXPECT_EQ(ranks_of_device(ranks, plan, 2), 1);
}

TEST(Placement, LeavesAMissingDriverToTheStart) {
  EXPECT_THAT(place_on_gpus(places(2, 0), counts({0, 0}), /*shares=*/false).value().ordinals, ElementsAre(0, 1));
}

/// Two sockets of two cores, two GPUs each.
const std::vector<GpuSite> kSockets = {{{0, 1}}, {{0, 1}}, {{2, 3}}, {{2, 3}}};

/// Where ranks that may use these cores go, and the cores near their GPUs.
device::DevicePlan plan_of(const std::vector<std::vector<int>>& cores) {
  auto ranks = places(static_cast<int>(cores.size()), 0);
  for (size_t rank = 0; rank < cores.size(); ++rank) ranks[rank].cores = cores[rank];
  return place_on_gpus(ranks, std::vector(cores.size(), kSockets), /*shares=*/true).value();
}

TEST(Placement, GivesARankThatTheLauncherBoundAGpuNearItsCores) {
  // As Open MPI maps ranks by socket: in turn.
  const device::DevicePlan in_turn = plan_of({{0, 1}, {2, 3}, {0, 1}, {2, 3}});
  EXPECT_THAT(in_turn.ordinals, ElementsAre(0, 2, 1, 3));
  EXPECT_THAT(in_turn.near_cores,
              ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3), ElementsAre(0, 1), ElementsAre(2, 3)));
  EXPECT_THAT(plan_of({{0, 1, 2, 3}, {0, 1, 2, 3}}).ordinals, ElementsAre(0, 1));  // unbound: in order
  EXPECT_THAT(plan_of({{0, 1, 2, 3}, {0}, {1}}).ordinals, ElementsAre(2, 0, 1));   // bound ranks choose first
  EXPECT_THAT(plan_of({{0}, {0}, {1}}).ordinals, ElementsAre(0, 1, 2));            // as near as there is room
}

TEST(Placement, SharesGpusEvenlyAndNearRanksFirst) {
  EXPECT_THAT(plan_of({{2}, {2}, {3}, {3}, {0}, {0}, {1}, {1}}).ordinals, ElementsAre(2, 3, 2, 3, 0, 1, 0, 1));
}

TEST(Placement, ReadsWhatRanksTellOfTheirGpus) {
  const std::vector<GpuSite> unknown(2);
  EXPECT_EQ(parse_gpus(to_text(unknown)).value(), unknown);
  EXPECT_EQ(parse_gpus(to_text(kSockets)).value(), kSockets);
  EXPECT_THAT(parse_gpus("").value(), IsEmpty());
  EXPECT_EQ(parse_gpus("0,one\n").error().kind, ErrorKind::kFailedPrecondition);
}

}  // namespace
}  // namespace lockstep::cuda
