#include "engine/group/binding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <thread>

namespace lockstep::group {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

struct Given {
  std::vector<int> cores;
  int threads = 1;
  int node = 0;
};

/// Ranks on hosts of `host_cores` cores.
Placement placed(const std::vector<Given>& ranks, int host_cores) {
  Placement placement;
  for (const Given& given : ranks) {
    const int rank = static_cast<int>(placement.ranks.size());
    placement.ranks.push_back(
        {.place = {.rank = rank, .cores = given.cores, .node = given.node, .host_cores = host_cores},
         .threads = given.threads});
  }
  return placement;
}

TEST(CoresOfThreads, AreAllCoresWhereARankHasAThreadForEach) {
  EXPECT_THAT(cores_of_threads(placed({{{0, 1, 5}, 3}}, 3), 0), ElementsAre(0, 1, 5));
  const Placement two = placed({{{0, 1}, 2}, {{2, 3}, 2}}, 8);
  EXPECT_THAT(cores_of_threads(two, 0), ElementsAre(0, 1));
  EXPECT_THAT(cores_of_threads(two, 1), ElementsAre(2, 3));
}

TEST(CoresOfThreads, AreTheFirstOfThoseThatTheLauncherGaveToTheRank) {
  EXPECT_THAT(cores_of_threads(placed({{{0, 1, 2, 3}, 2}, {{4, 5, 6, 7}, 3}}, 8), 1), ElementsAre(4, 5, 6));
}

TEST(CoresOfThreads, DivideCommonCoresThatTheRanksTakeTogether) {
  const Placement even = placed({{{0, 1, 2, 3}, 2}, {{0, 1, 2, 3}, 2}}, 4);
  EXPECT_THAT(cores_of_threads(even, 0), ElementsAre(0, 1));
  EXPECT_THAT(cores_of_threads(even, 1), ElementsAre(2, 3));
  const Placement uneven = placed({{{4, 5, 6}, 1}, {{4, 5, 6}, 2}, {{4, 5, 6}, 3, 1}}, 3);
  EXPECT_THAT(cores_of_threads(uneven, 1), ElementsAre(5, 6));
  EXPECT_THAT(cores_of_threads(uneven, 2), ElementsAre(4, 5, 6));  // on another host
}

TEST(CoresOfThreads, OfTwoReplicasOfOneRankAreACoreEach) {
  std::vector<transport::RankPlace> launch;  // what both replicas see
  for (const int rank : {0, 1}) {
    launch.push_back({.rank = rank, .local_rank = rank, .local_size = 2, .cores = {0, 1}, .host_cores = 2});
  }
  const Placement placement = place_threads(launch, transport::Launcher::kOpenMpi, /*threads=*/{});
  EXPECT_EQ(placement.ranks[0].threads, 1);
  EXPECT_THAT(cores_of_threads(placement, 0), ElementsAre(0));
  EXPECT_THAT(cores_of_threads(placement, 1), ElementsAre(1));
  EXPECT_THAT(judge(placement), IsEmpty());
}

TEST(CoresOfThreads, AreNoneWhereOtherJobsMaySitOnThem) {
  EXPECT_THAT(cores_of_threads(placed({{{0, 1, 2, 3}, 2}}, 4), 0), IsEmpty());
  EXPECT_THAT(cores_of_threads(placed({{{0, 1, 2, 3}, 1}, {{0, 1, 2, 3}, 2}}, 4), 0), IsEmpty());
}

TEST(CoresOfThreads, AreNoneWhereThereAreTooFewOrSomeInCommon) {
  EXPECT_THAT(cores_of_threads(placed({{{0, 1}, 4}}, 8), 0), IsEmpty());
  EXPECT_THAT(cores_of_threads(placed({{{0, 1}, 1}, {{0, 1}, 1}, {{0, 1}, 1}}, 2), 1), IsEmpty());
  EXPECT_THAT(cores_of_threads(placed({{{0, 1, 2}, 2}, {{2, 3}, 2}}, 4), 1), IsEmpty());
  EXPECT_THAT(cores_of_threads(placed({{{}, 1}}, 0), 0), IsEmpty());
}

TEST(CoresOfThreads, AreTheHardwareThreadsThatTheProcessMayUse) {
  Placement siblings = placed({{{0, 1}, 2}}, 8);
  siblings.ranks[0].place.hardware_threads = {64, 1};
  EXPECT_THAT(cores_of_threads(siblings, 0), ElementsAre(64, 1));
}

/// `count` cores from `first` on.
std::vector<int> cores(int first, int count) {
  std::vector<int> all(static_cast<size_t>(count));
  std::iota(all.begin(), all.end(), first);
  return all;
}

/// The cores of each rank.
std::vector<std::vector<int>> cores_of(const Placement& placement) {
  std::vector<std::vector<int>> all;
  for (const PlacedRank& rank : placement.ranks) all.push_back(rank.place.cores);
  return all;
}

TEST(NearDevices, DivideTheCoresNearThemBetweenTheirRanks) {
  // Two sockets of eight cores, four GPUs each.
  const Placement unbound = placed(std::vector<Given>(8, {cores(0, 16), 1}), 16);
  std::vector<std::vector<int>> near(4, cores(0, 8));
  near.resize(8, cores(8, 8));
  EXPECT_THAT(cores_of(near_devices(unbound, near)),
              ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3), ElementsAre(4, 5), ElementsAre(6, 7), ElementsAre(8, 9),
                          ElementsAre(10, 11), ElementsAre(12, 13), ElementsAre(14, 15)));
}

TEST(NearDevices, LeaveHostsApartAndRanksUnboundWhereEveryCoreIsNearOrNothingIsKnown) {
  const Placement two_hosts = placed({{cores(0, 4), 1, 0}, {cores(0, 4), 1, 1}}, 4);
  EXPECT_THAT(cores_of(near_devices(two_hosts, std::vector(2, cores(2, 2)))),
              ElementsAre(ElementsAre(2, 3), ElementsAre(2, 3)));
  EXPECT_EQ(cores_of(near_devices(two_hosts, std::vector(2, cores(0, 4)))), cores_of(two_hosts));  // one NUMA node
  EXPECT_EQ(cores_of(near_devices(two_hosts, std::vector(2, std::vector<int>()))), cores_of(two_hosts));
}

TEST(NearDevices, LeaveACoreToTheRankThatHasNoOther) {
  const std::vector<std::vector<int>> near(2, cores(0, 4));
  for (const bool swapped : {false, true}) {
    const Given narrow{{0}, 1}, wide{cores(0, 8), 1};
    const Placement placement = swapped ? placed({wide, narrow}, 8) : placed({narrow, wide}, 8);
    const auto moved = cores_of(near_devices(placement, near));
    EXPECT_THAT(moved[swapped ? 1 : 0], ElementsAre(0));
    EXPECT_THAT(moved[swapped ? 0 : 1], ElementsAre(1, 2, 3));
  }
}

TEST(NearDevices, ShareTooFewCoresOfAContainer) {
  const Placement placement = placed(std::vector<Given>(3, {cores(0, 4), 1}), 4);
  const auto moved = cores_of(near_devices(placement, std::vector(3, cores(0, 2))));
  EXPECT_THAT(moved, testing::Each(testing::IsSubsetOf({0, 1})));
  EXPECT_THAT(moved, testing::Each(testing::Not(IsEmpty())));
}

TEST(NearDevices, AreFarFromARankThatTheLauncherBoundElsewhere) {
  Placement placement = placed({{cores(0, 2), 1}, {cores(2, 2), 1}}, 4);
  placement.launcher = transport::Launcher::kOpenMpi;
  placement.ranks[1].place.host = "node0";
  placement.ranks[1].device = "cuda:1";
  const std::vector<std::vector<int>> near(2, cores(0, 2));
  EXPECT_EQ(cores_of(near_devices(placement, near)), cores_of(placement));
  const auto findings = judge_devices(placement, near);
  ASSERT_THAT(findings, testing::SizeIs(1));
  EXPECT_EQ(findings[0].what, "rank 1 on node0 may run only on cores 2-3, far from its device cuda:1 (near cores 0-1)");
  EXPECT_EQ(findings[0].fix, "mpirun --bind-to none");
  EXPECT_THAT(judge_devices(placement, std::vector(2, std::vector<int>())), IsEmpty());
}

TEST(NearDevices, KeepTheHardwareThreadsOfTheirCores) {
  Placement placement = placed({{{0, 1, 2}, 1}}, 4);
  placement.ranks[0].place.hardware_threads = {0, 65, 66};
  const device::RankPlace moved = near_devices(placement, std::vector(1, std::vector{1, 2})).ranks[0].place;
  EXPECT_THAT(moved.cores, ElementsAre(1, 2));
  EXPECT_THAT(moved.hardware_threads, ElementsAre(65, 66));
}

TEST(BoundThread, StaysOnItsCoreUntilItIsGone) {
  cpu_set_t before, now;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  int core = CPU_SETSIZE - 1;
  while (!CPU_ISSET(core, &before)) --core;
  {
    const BoundThread bound(std::vector<int>{core});
    ASSERT_EQ(sched_getaffinity(0, sizeof now, &now), 0);
    EXPECT_EQ(CPU_COUNT(&now), 1);
    EXPECT_TRUE(CPU_ISSET(core, &now));
  }
  ASSERT_EQ(sched_getaffinity(0, sizeof now, &now), 0);
  EXPECT_TRUE(CPU_EQUAL(&now, &before));
}

TEST(BoundThread, LeavesTheThreadAloneWithoutACoreThatItMayUse) {
  cpu_set_t before, now;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  for (const std::vector<int>& cores : {std::vector<int>{}, {CPU_SETSIZE - 1}, {1 << 20}}) {
    const BoundThread bound(cores);
    ASSERT_EQ(sched_getaffinity(0, sizeof now, &now), 0);
    EXPECT_TRUE(CPU_EQUAL(&now, &before));
  }
}

}  // namespace
}  // namespace lockstep::group
