#include "launcher/serve/door/shutdown.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace lockstep::serve {
namespace {

/// A server without a network, whose engine is not its own.
class ShutdownTest : public ::testing::Test {
 protected:
  /// The reason of the end, once the loop has stopped.
  Error end() {
    parts_.loop->run();
    return shutdown_.result().error();
  }

  const Log log_{[](LogLevel, std::string_view) {}};
  DoorParts parts_{DoorOptions{}, log_, [](std::string_view) {}};
  Shutdown shutdown_{parts_};
  const Error ended_{ErrorKind::kPeerLost, "rank 1 was lost", /*origin_rank=*/1};
  const Error disconnected_{ErrorKind::kPeerLost, "the connection was lost"};
};

TEST_F(ShutdownTest, KeepsTheReasonOfTheEnginesEndWhenTheConnectionIsLostAfterwards) {
  shutdown_.on_engine_end(ended_);
  shutdown_.on_lost(disconnected_);
  EXPECT_EQ(parts_.loss, ended_);
  EXPECT_EQ(end(), ended_);
}

TEST_F(ShutdownTest, TakesTheEnginesEndForTheWholeStory) {
  shutdown_.on_engine_end(ended_);
  shutdown_.on_silent();
  EXPECT_EQ(end(), ended_);
}

TEST_F(ShutdownTest, BlamesRankZeroOfASilentEngine) {
  parts_.status.ranks = {"ready", "ready"};
  shutdown_.on_silent();
  EXPECT_EQ(parts_.loss->origin_rank, 0);
  EXPECT_EQ(parts_.status.ranks, (std::vector<std::string>{"lost", "ended"}));
  EXPECT_EQ(end().kind, ErrorKind::kPeerLost);
}

TEST_F(ShutdownTest, StopsAtOnceOnASignalBeforeTheEngineServes) {
  shutdown_.on_signal();
  EXPECT_EQ(end().kind, ErrorKind::kCancelled);
}

TEST_F(ShutdownTest, TakesAnEngineThatAnotherClientHasEndedForALoss) {
  shutdown_.on_engine_end(ok());
  EXPECT_EQ(end().kind, ErrorKind::kPeerLost);
}

}  // namespace
}  // namespace lockstep::serve
