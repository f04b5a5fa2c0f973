#include "launcher/serve/engine/routing.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace lockstep::serve {
namespace {

std::vector<int32_t> ids(size_t count, int32_t first) {
  std::vector<int32_t> made(count);
  std::iota(made.begin(), made.end(), first);
  return made;
}

ReplicaLoad busy(size_t sequences) {
  return {.serves = true, .sequences = sequences, .slots = 4, .cache_tokens = 4096};
}

TEST(Routing, PrefersTheReplicaThatHasHadThePrompt) {
  Routing routing;
  EXPECT_EQ(routing.choose(ids(200, 0), {{busy(1), busy(0)}}), 1u);
  EXPECT_EQ(routing.choose(ids(300, 0), {{busy(0), busy(1)}}), 1u);   // its first 200 ids
  EXPECT_EQ(routing.choose(ids(300, 50), {{busy(0), busy(1)}}), 0u);  // other ids
}

TEST(Routing, PrefersTheReplicaWithLessToDoForANewPrompt) {
  Routing routing;
  EXPECT_EQ(routing.choose(ids(10, 0), {{busy(2), busy(1), busy(3)}}), 1u);
}

TEST(Routing, ABeginningThatManyRequestsShareSpreadsToBusyReplicasNeighbours) {
  Routing routing;
  std::vector<ReplicaLoad> loads = {busy(0), busy(0)};
  for (int i = 0; i < 8; ++i) ++loads[routing.choose(ids(160, 0), loads)].sequences;
  EXPECT_EQ(loads[0].sequences, 4u);
  EXPECT_EQ(loads[1].sequences, 4u);
}

TEST(Routing, AFreeSlotIsWorthMoreThanAnyPrompt) {
  Routing routing;
  EXPECT_EQ(routing.choose(ids(2000, 0), {{busy(0), busy(0)}}), 0u);
  EXPECT_EQ(routing.choose(ids(2000, 0), {{busy(4), busy(3)}}), 1u);
}

TEST(Routing, ChoosesOnlyReplicasThatServe) {
  Routing routing;
  routing.choose(ids(200, 0), {{busy(0), busy(0)}});
  EXPECT_EQ(routing.choose(ids(200, 0), {{ReplicaLoad{}, busy(9)}}), 1u);
}

TEST(Routing, ForgetsAReplicaThatHasStartedAgain) {
  Routing routing;
  routing.choose(ids(200, 0), {{busy(1), busy(0)}});
  routing.forget(1);
  EXPECT_EQ(routing.choose(ids(200, 0), {{busy(0), busy(1)}}), 0u);
}

TEST(Routing, RemembersNoMoreThanACacheHolds) {
  Routing routing;
  const ReplicaLoad small{.serves = true, .sequences = 0, .slots = 4, .cache_tokens = 256};
  std::vector<ReplicaLoad> loads = {small, small};
  loads[0].sequences = 1;
  EXPECT_EQ(routing.choose(ids(200, 0), loads), 1u);
  EXPECT_EQ(routing.choose(ids(200, 1000), loads), 1u);  // in the place of the first
  loads[0].sequences = 0;
  loads[1].sequences = 1;
  EXPECT_EQ(routing.choose(ids(200, 0), loads), 0u);
}

}  // namespace
}  // namespace lockstep::serve
