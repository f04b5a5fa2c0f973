#include "engine/group/replicas.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::group {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

constexpr Replica kThird{.index = 2, .count = 4, .first = 4};  // ranks 4 and 5 of eight

TEST(FindReplica, CutsTheRanksOfALaunchInOrder) {
  EXPECT_EQ(find_replica(0, 8, 2).value(), (Replica{.index = 0, .count = 4, .first = 0}));
  EXPECT_EQ(find_replica(5, 8, 2).value(), kThird);
  EXPECT_EQ(find_replica(2, 3, 1).value(), (Replica{.index = 2, .count = 3, .first = 2}));
  EXPECT_FALSE(find_replica(3, 4, 4).value().has_others());
}

TEST(FindReplica, RefusesRanksThatDoNotDivide) {
  const auto uneven = find_replica(0, 8, 3);
  ASSERT_FALSE(uneven.has_value());
  EXPECT_EQ(uneven.error().kind, ErrorKind::kFailedPrecondition);
  EXPECT_THAT(uneven.error().message, HasSubstr("found 8 ranks that were started, expected a multiple of 3"));
  EXPECT_EQ(find_replica(0, 8, -1).error().kind, ErrorKind::kInvalidArgument);
}

TEST(LaunchRanks, NameTheProcessOfAnErrorOnce) {
  const Error error{ErrorKind::kPeerLost, "rank 1 was lost", 1};
  const Error named = in_launch_ranks(error, kThird);
  EXPECT_EQ(named.origin_rank, 5);
  EXPECT_THAT(named.message, EndsWith("rank 1 was lost; rank 1 of replica 2 is rank 5 of the launch"));
  Error told = named;  // another rank of the replica gets it with the replica's own number
  told.origin_rank = 1;
  EXPECT_EQ(in_launch_ranks(told, kThird).message, named.message);
  EXPECT_EQ(in_launch_ranks(error, {.index = 0, .count = 4, .first = 0}).message, error.message);
}

TEST(LaunchRanks, OfAnExchangeBetweenReplicasStay) {
  const Error error = from_launch_ranks({ErrorKind::kFailedPrecondition, "rank 7 differs", 7}, kThird);
  const Error named = in_launch_ranks(error, kThird);
  EXPECT_EQ(named.origin_rank, 7);
  EXPECT_EQ(named.message, "rank 7 differs (ranks of the launch)");
}

TEST(LaunchRanks, AreThoseOfHooksAndLogLines) {
  int phase_of = -1, record_of = -1, line_of = -1;
  std::optional<int> recorded_origin;
  const Hooks hooks = for_launch_ranks({.on_phase = [&](int rank, const char*) { phase_of = rank; },
                                        .settle =
                                            [&](int rank, const Error& error) {
                                              record_of = rank;
                                              recorded_origin = error.origin_rank;
                                              return error;
                                            }},
                                       kThird);
  hooks.on_phase(1, "load");
  EXPECT_EQ(phase_of, 5);
  EXPECT_EQ(hooks.settle(0, {ErrorKind::kPeerLost, "rank 1 was lost", 1}).origin_rank, 1);
  EXPECT_EQ(record_of, 4);
  EXPECT_EQ(recorded_origin, 5);
  EXPECT_FALSE(hooks.on_step);

  GroupOptions options;
  options.log = [&](int rank, LogLevel, std::string_view) { line_of = rank; };
  for_launch_ranks(std::move(options), kThird).log(1, LogLevel::kInfo, "line");
  EXPECT_EQ(line_of, 5);
}

}  // namespace
}  // namespace lockstep::group
