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
  int finished_ = 0;
  Shutdown shutdown_{parts_, [this] { ++finished_; }};
  const Error ended_{ErrorKind::kPeerLost, "rank 1 was lost", /*origin_rank=*/1};
  const Error disconnected_{ErrorKind::kPeerLost, "the connection was lost"};
};

TEST_F(ShutdownTest, KeepsTheFirstReasonOfTheEnd) {
  shutdown_.end_after_flush(ended_);
  shutdown_.end_after_flush(disconnected_);
  shutdown_.on_lost(disconnected_);
  EXPECT_EQ(parts_.loss(), ended_);
  EXPECT_EQ(end(), ended_);
}

TEST_F(ShutdownTest, SaysAtOnceThatTheEngineIsLostAndLaterWhy) {
  parts_.statuses = {{.ranks = {"ready", "ready"}}};
  shutdown_.on_lost(disconnected_);
  EXPECT_EQ(parts_.health.state(), DoorState::kLost);
  EXPECT_EQ(parts_.status().ranks, (std::vector<std::string>{"lost", "lost"}));
  shutdown_.end_after_flush(ended_);
  EXPECT_EQ(parts_.status().ranks, (std::vector<std::string>{"ended", "lost"}));
  EXPECT_EQ(end(), ended_);
}

TEST_F(ShutdownTest, StopsAtOnceOnASignalBeforeTheEngineServes) {
  shutdown_.on_signal();
  EXPECT_EQ(end().kind, ErrorKind::kCancelled);
}

}  // namespace
}  // namespace lockstep::serve
