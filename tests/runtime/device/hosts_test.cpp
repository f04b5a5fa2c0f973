// How ranks are grouped by hosts, and how a sum over them is divided.
#include "runtime/device/hosts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/device/host_levels.h"
#include "tests/conformance/communicator/tree_reference.h"

namespace lockstep::device {
namespace {

using ::testing::ElementsAre;

/// Rank r runs on host `nodes[r]`, which is called by a letter.
Hosts hosts_of(const std::vector<int>& nodes) {
  std::vector<RankPlace> places;
  for (const int node : nodes) {
    places.push_back(
        {.rank = static_cast<int>(places.size()), .host = std::string(1, static_cast<char>('a' + node)), .node = node});
  }
  return hosts_from(places);
}

TEST(Hosts, NumberTheirRanksAndHaveARailForEachOfTheFewest) {
  const Hosts hosts = hosts_of({0, 1, 0, 1, 0});
  EXPECT_EQ(hosts.count(), 2);
  EXPECT_EQ(hosts.hosts[0], (Host{.name = "a", .ranks = {0, 2, 4}}));
  EXPECT_EQ(hosts.of(3), (Host{.name = "b", .ranks = {1, 3}}));
  EXPECT_THAT(hosts.local_of, ElementsAre(0, 0, 1, 1, 2));
  EXPECT_EQ(hosts.rails(), 2);
  EXPECT_THAT(hosts.rail(1), ElementsAre(2, 3));
}

TreeFinish even_sum(int ranks, int64_t leaves) {
  BlockSplit split;
  for (int rank = 0; rank <= ranks; ++rank) split.bounds.push_back(leaves * rank / ranks);
  return plan_finish(split);
}

TEST(HostLevels, BringOneRootWhereAHostHoldsAWholeSubtree) {
  const Hosts hosts = hosts_of({0, 0, 1, 1});
  for (int host = 0; host < 2; ++host) {
    const HostLevels levels = divide_between_hosts(even_sum(4, 4), hosts, host);
    ASSERT_EQ(levels.within.size(), 1u);
    EXPECT_THAT(levels.within[0].steps, ElementsAre(TreeFinish::Step{0, 1}));
    EXPECT_THAT(levels.between.first_root, ElementsAre(0, 1, 2));
    EXPECT_THAT(levels.between.steps, ElementsAre(TreeFinish::Step{0, 1}));
  }
}

TEST(HostLevels, BringEveryRootWhereNoTwoMeetOnAHost) {
  const HostLevels levels = divide_between_hosts(even_sum(4, 4), hosts_of({0, 1, 0, 1}), 1);
  EXPECT_EQ(levels.within.size(), 2u);
  for (const TreeFinish& root : levels.within) EXPECT_TRUE(root.steps.empty());
  EXPECT_THAT(levels.between.first_root, ElementsAre(0, 2, 4));
  EXPECT_EQ(levels.between.steps.size(), 3u);
}

TEST(HostLevels, LeaveNothingToDoWhereOneHostHoldsAll) {
  const TreeFinish finish = plan_finish({.bounds = {0, 2, 4, 4}});
  const HostLevels holder = divide_between_hosts(finish, hosts_of({0, 0, 1}), 0);
  const HostLevels other = divide_between_hosts(finish, hosts_of({0, 0, 1}), 1);
  EXPECT_EQ(holder.within.size(), 1u);
  EXPECT_TRUE(other.within.empty());
  EXPECT_EQ(holder.between.first_root, other.between.first_root);
  EXPECT_TRUE(holder.between.steps.empty());
}

/// The sum of `roots` by the additions of a plan.
float finished(const TreeFinish& plan, std::vector<float> roots) {
  for (const TreeFinish::Step& step : plan.steps) roots[step.dst] += roots[step.src];
  return roots[plan.result];
}

/// One column of a sum, taken level by level.
float sum_by_levels(const BlockSplit& split, const Hosts& hosts, int64_t column) {
  const TreeFinish finish = plan_finish(split);
  std::vector<float> brought;
  for (int host = 0; host < hosts.count(); ++host) {
    std::vector<float> roots;
    for (const int rank : hosts.hosts[host].ranks) {
      for (const Range& root : split.roots_of(rank)) {
        roots.push_back(
            conformance::node_sum({root.begin, root.begin + conformance::tree_width(root.size())}, root.end, column));
      }
    }
    for (const TreeFinish& sum : divide_between_hosts(finish, hosts, host).within) {
      brought.push_back(finished(sum, roots));
    }
  }
  return finished(divide_between_hosts(finish, hosts, 0).between, brought);
}

TEST(HostLevels, AreTheAdditionsOfTheTreeForEveryMapAndSplit) {
  for (int ranks = 2; ranks <= 6; ++ranks) {
    for (int map = 0; map < 1 << (ranks - 1); ++map) {  // every way to spread the ranks over two hosts
      std::vector<int> nodes(static_cast<size_t>(ranks));
      for (int rank = 1; rank < ranks; ++rank) nodes[rank] = map >> (rank - 1) & 1;
      for (const BlockSplit& split : conformance::splits_for(ranks)) {
        for (int64_t column = 0; column < 20; ++column) {
          const float expected = conformance::reference_sum(split.leaves(), column + 1).back();
          EXPECT_EQ(sum_by_levels(split, hosts_of(nodes), column), expected) << ranks << " ranks, map " << map;
        }
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::device
