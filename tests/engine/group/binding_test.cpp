#include "engine/group/binding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

TEST(BoundThread, StaysOnItsCoreUntilItIsGone) {
  cpu_set_t before, now;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  int core = CPU_SETSIZE - 1;
  while (!CPU_ISSET(core, &before)) --core;
  {
    const BoundThread bound(std::vector<int>{core, 0});
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
