// Tests of when a rank counts as running, for signals and exit records.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <string_view>
#include <utility>

#include "engine/group/state.h"
#include "tests/engine/engine_fixture.h"

namespace lockstep {
namespace {

class SessionRankTest : public EngineTest {};

// A signal that follows rank 0's "ready" at once has to find every rank running.
TEST_F(SessionRankTest, EveryRankCountsAsRunningBeforeAnyIsReadyAndNoLongerAtItsReport) {
  std::array<std::atomic<bool>, 2> running = {};
  std::array<std::atomic<int>, 2> running_at_run = {};
  std::atomic<bool> runs_at_report = false;
  group::Hooks hooks;
  hooks.on_running = [&](int rank, const group::RunningRank& access) {
    running.at(static_cast<size_t>(rank)) = static_cast<bool>(access.cancel);
  };
  hooks.on_phase = [&](int rank, std::string_view phase) {
    const auto own = static_cast<size_t>(rank);
    if (phase == "run") running_at_run.at(own) = running[0] + running[1];
    if (phase == "report" && running.at(own)) runs_at_report = true;
  };
  const auto group = group::open_threads(2, {}, std::move(hooks)).value();
  const auto engine = open(*group);
  EXPECT_EQ(running_at_run[0], 2);  // rank 0 tells others that all are ready
  EXPECT_GE(running_at_run[1], 1);
  EXPECT_EQ(ids_of(*engine, request(prompt_)), alone(request(prompt_)));
  EXPECT_TRUE(engine->close().has_value());
  EXPECT_FALSE(runs_at_report);
  EXPECT_FALSE(running[0] || running[1]);
}

TEST_F(SessionRankTest, ACancelBeforeTheFirstStepEndsEveryRank) {
  group::Hooks hooks;
  std::atomic<int> cancelled = 0;
  hooks.on_running = [&](int rank, const group::RunningRank& access) {
    if (rank != 1 || !access.cancel) return;
    access.cancel();
    ++cancelled;
  };
  const auto group = group::open_threads(2, {}, std::move(hooks)).value();
  const auto engine = Engine::open(*group, model(), small());
  const Result<void> ended = engine.has_value() ? engine.value()->close() : Result<void>(engine.error());
  ASSERT_FALSE(ended.has_value());
  EXPECT_EQ(ended.error().kind, ErrorKind::kCancelled) << ended.error().message;
  EXPECT_EQ(cancelled, 1);
}

}  // namespace
}  // namespace lockstep
