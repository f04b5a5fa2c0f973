#include "engine/group/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

namespace lockstep::group {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using transport::Launcher;

/// `count` cores from `first` on.
std::vector<int> cores(int first, int count) {
  std::vector<int> all(static_cast<size_t>(count));
  std::iota(all.begin(), all.end(), first);
  return all;
}

/// Adds a rank to a host of `host_cores` cores.
void place(Placement& placement, int node, std::vector<int> own_cores, int threads, int host_cores) {
  const int rank = static_cast<int>(placement.ranks.size());
  int local = 0;
  for (PlacedRank& other : placement.ranks) {
    if (other.place.node == node) {
      ++local;
      ++other.place.local_size;
    }
  }
  placement.ranks.push_back({.place = {.rank = rank,
                                       .host = "node" + std::to_string(node),
                                       .local_rank = local,
                                       .local_size = local + 1,
                                       .cores = std::move(own_cores),
                                       .node = node,
                                       .host_cores = host_cores},
                             .threads = threads});
}

TEST(Judge, FindsNothingWrongWithACoreEachAndWithAllCoresShared) {
  Placement bound{Launcher::kOpenMpi, {}};
  for (int rank = 0; rank < 2; ++rank) place(bound, 0, {rank}, 1, 2);
  EXPECT_THAT(judge(bound), IsEmpty());
  Placement free{Launcher::kOpenMpi, {}};
  for (int rank = 0; rank < 2; ++rank) place(free, 0, cores(0, 8), 4, 8);
  EXPECT_THAT(judge(free), IsEmpty());
}

TEST(Judge, SeesRanksThatMpirunBoundToACoreEachOfMany) {
  Placement placement{Launcher::kOpenMpi, {}};
  for (int rank = 0; rank < 2; ++rank) place(placement, 0, {rank}, 1, 64);
  const auto findings = judge(placement);
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_THAT(findings[0].what, HasSubstr("ranks 0, 1 on node0 may use only 2 of 64 cores"));
  EXPECT_EQ(findings[0].fix, "mpirun --bind-to none, or mpirun --map-by slot:PE=32");
}

TEST(Judge, NamesTheFlagOfTheLauncherThatWasUsed) {
  for (const auto& [launcher, flag] :
       {std::pair{Launcher::kSlurm, "srun --cpus-per-task=4"}, std::pair{Launcher::kPmi, "-bind-to core:4"}}) {
    Placement placement{launcher, {}};
    for (int rank = 0; rank < 2; ++rank) place(placement, 0, {rank}, 1, 8);
    EXPECT_THAT(judge(placement).at(0).fix, HasSubstr(flag));
  }
}

TEST(Judge, SeesTwoRanksOnOneCoreWhileOthersIdle) {
  Placement placement{Launcher::kOpenMpi, {}};
  for (int rank = 0; rank < 2; ++rank) place(placement, 0, {3}, 1, 4);
  const auto findings = judge(placement);
  EXPECT_THAT(findings.at(0).what, HasSubstr("ranks 0, 1 on node0 share 1 core (3) while 3 of its 4 cores idle"));
  EXPECT_THAT(findings.at(0).fix, HasSubstr("PE=2"));
}

TEST(Judge, SeesMoreRanksThanCores) {
  Placement placement{Launcher::kOpenMpi, {}};
  for (int rank = 0; rank < 4; ++rank) place(placement, 0, cores(0, 2), 1, 2);
  const auto findings = judge(placement);
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_THAT(findings[0].what, HasSubstr("node0 has 4 ranks but 2 cores"));
  EXPECT_EQ(findings[0].fix, "start at most 2 ranks there");
}

TEST(Judge, SeesMoreThreadsThanCores) {
  Placement bound{Launcher::kOpenMpi, {}};
  place(bound, 0, {0}, 4, 4);
  bool said = false;
  for (const Finding& finding : judge(bound)) {
    said |= finding.what == "rank 0 on node0 computes with 4 threads on 1 core" &&
            finding.fix == "mpirun --bind-to none, or mpirun --map-by slot:PE=4";
  }
  EXPECT_TRUE(said);
  Placement many{Launcher::kSlurm, {}};  // 8 cores cannot give each of two ranks eight
  for (int rank = 0; rank < 2; ++rank) place(many, 0, {rank}, 8, 8);
  std::vector<std::string> fixes;
  for (const Finding& finding : judge(many)) fixes.push_back(finding.fix);
  EXPECT_THAT(fixes, testing::Contains("srun --cpus-per-task=4 (or --cpu-bind=none), with --threads 4"));
  Placement together{Launcher::kOpenMpi, {}};
  for (int rank = 0; rank < 2; ++rank) place(together, 0, cores(0, 4), 4, 4);
  EXPECT_THAT(judge(together).at(0).what, HasSubstr("ranks 0, 1 on node0 compute with 8 threads on 4 cores"));
  EXPECT_EQ(judge(together).at(0).fix, "--threads 2");
}

TEST(Judge, SeesUnevenHosts) {
  Placement placement{Launcher::kSlurm, {}};
  for (const int node : {0, 0, 0, 1}) place(placement, node, cores(0, 8), 2, 8);
  const auto findings = judge(placement);
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_THAT(findings[0].what, HasSubstr("3 ranks on node0, 1 rank on node1"));
  EXPECT_EQ(findings[0].fix, "srun --ntasks-per-node=2");
  placement.ranks.pop_back();
  placement.ranks.pop_back();
  place(placement, 1, cores(0, 8), 2, 8);
  EXPECT_EQ(judge(placement).at(0).fix, "start a multiple of 2 ranks");
}

TEST(Judge, SaysOnceWhatIsWrongOnManyHosts) {
  Placement placement{Launcher::kSlurm, {}};
  for (int node = 0; node < 3; ++node) place(placement, node, {0}, 1, 8);
  const auto findings = judge(placement);
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_THAT(findings[0].what, HasSubstr("(and 2 hosts like it)"));
}

TEST(Judge, DoesNotAccuseAHostWhoseCoresAreNotKnown) {
  Placement placement{Launcher::kSlurm, {}};
  place(placement, 0, {0}, 1, 0);
  EXPECT_THAT(judge(placement), IsEmpty());
}

TEST(CoreList, JoinsRuns) {
  EXPECT_EQ(core_list(std::vector{0, 1, 2, 3, 8}), "0-3,8");
  EXPECT_EQ(core_list(std::vector{5}), "5");
  EXPECT_EQ(core_list({}), "unknown");
}

TEST(RankTable, HasALineForEachOfFewRanks) {
  Placement placement{Launcher::kOpenMpi, {}};
  for (const int node : {0, 0, 1}) place(placement, node, cores(0, 4), 2, 4);
  placement.ranks[2].device = "cuda:1";
  EXPECT_EQ(rank_table(placement),
            "rank  host   local  device  threads  cores\n"
            "0     node0  0/2    cpu     2        0-3\n"
            "1     node0  1/2    cpu     2        0-3\n"
            "2     node1  0/1    cuda:1  2        0-3");
}

TEST(RankTable, HasALineForEachHostOfManyRanks) {
  Placement placement{Launcher::kOpenMpi, {}};
  for (int rank = 0; rank < 128; ++rank) place(placement, rank / 64, {rank % 64}, 1, 64);
  EXPECT_EQ(rank_table(placement),
            "ranks   host   count  devices  threads  cores\n"
            "0-63    node0  64     cpu      64       0-63 (1 each)\n"
            "64-127  node1  64     cpu      64       0-63 (1 each)");
}

}  // namespace
}  // namespace lockstep::group
