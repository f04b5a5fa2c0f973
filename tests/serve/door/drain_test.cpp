#include "launcher/serve/door/drain.h"

#include <gtest/gtest.h>

#include <chrono>

namespace lockstep::serve {
namespace {

using namespace std::chrono_literals;
using SignalStep = Drain::SignalStep;
using DrainStep = Drain::DrainStep;

constexpr TimePoint kStart{};

TEST(Drain, TheFirstSignalDrainsAndTheSecondStops) {
  Drain drain(30s);
  EXPECT_EQ(drain.on_signal(DoorState::kReady, kStart), SignalStep::kDrain);
  EXPECT_EQ(drain.on_signal(DoorState::kDraining, kStart + 1s), SignalStep::kStop);
}

TEST(Drain, ASignalBeforeTheServerIsReadyStops) {
  Drain drain(30s);
  EXPECT_EQ(drain.on_signal(DoorState::kStarting, kStart), SignalStep::kStop);
}

TEST(Drain, TheFirstSignalAfterALossLeavesTheLossItsExitCode) {
  Drain drain(30s);
  EXPECT_EQ(drain.on_signal(DoorState::kLost, kStart), SignalStep::kIgnore);
  EXPECT_EQ(drain.on_signal(DoorState::kLost, kStart), SignalStep::kStop);
}

TEST(Drain, WaitsForOpenRequestsUntilTheirTimeIsOver) {
  Drain drain(30s);
  drain.on_signal(DoorState::kReady, kStart);
  EXPECT_EQ(drain.look(2, kStart + 29s), DrainStep::kWait);
  EXPECT_EQ(drain.look(0, kStart + 29s), DrainStep::kFinish);
  EXPECT_EQ(drain.look(2, kStart + 30s), DrainStep::kCut);
  EXPECT_EQ(drain.look(0, kStart + 30s), DrainStep::kFinish);
}

}  // namespace
}  // namespace lockstep::serve
