#include "launcher/serve/door/health.h"

#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "launcher/serve/door/health_json.h"

namespace lockstep::serve {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

constexpr TimePoint kStart{};
constexpr bool kWorking = true, kIdle = false;

Health ready_health() {
  Health health(8s);
  health.note_ready();
  return health;
}

TEST(Health, IsHealthyFromTheEnginesStartUntilTheDrain) {
  Health health(8s);
  EXPECT_FALSE(health.is_healthy(kStart, kIdle));
  health.note_ready();
  EXPECT_TRUE(health.is_healthy(kStart, kIdle));
  health.note_draining();
  EXPECT_FALSE(health.is_healthy(kStart, kIdle));
  EXPECT_EQ(health.word(kStart, kIdle), "draining");
}

TEST(Health, TakesRequestsWhileTheEngineStartsAgain) {
  Health health(8s);
  health.note_recovering();  // no request has been taken
  EXPECT_EQ(health.state(), DoorState::kStarting);
  EXPECT_FALSE(health.takes_requests());
  health.note_ready();
  health.note_recovering();
  EXPECT_EQ(health.word(kStart, kWorking), "recovering");
  EXPECT_FALSE(health.is_healthy(kStart, kIdle));
  EXPECT_TRUE(health.takes_requests());
  health.note_ready();
  EXPECT_TRUE(health.is_healthy(kStart, kIdle));
  health.note_draining();
  health.note_recovering();
  health.note_ready();
  EXPECT_EQ(health.state(), DoorState::kDraining);
}

TEST(Health, StaysLostForTheRestOfItsLife) {
  Health health = ready_health();
  health.note_lost();
  health.note_ready();
  health.note_draining();
  health.note_progress(kStart);
  EXPECT_FALSE(health.is_healthy(kStart, kIdle));
  EXPECT_EQ(health.word(kStart, kIdle), "lost");
}

TEST(Health, IsStalledWhenNothingMovesWhileWorkIsRunning) {
  Health health = ready_health();
  health.note_work(kStart);
  EXPECT_TRUE(health.is_healthy(kStart + 8s, kWorking));
  EXPECT_FALSE(health.is_healthy(kStart + 9s, kWorking));
  EXPECT_EQ(health.word(kStart + 9s, kWorking), "stalled");
  EXPECT_TRUE(health.is_healthy(kStart + 9s, kIdle));
  health.note_progress(kStart + 9s);
  EXPECT_TRUE(health.is_healthy(kStart + 9s, kWorking));
}

TEST(HealthJson, SaysTheStateTheStepAndTheQueue) {
  const json body =
      json::parse(health_json({.state = "ready", .progress = 1500ms, .open_requests = 3, .replicas = {"serving"}},
                              {.running = 2, .queued = 1, .steps = 17, .ranks = {"ready", "ready"}}));
  EXPECT_EQ(
      body,
      json::parse(
          R"({"state": "ready", "replicas": ["serving"], "ranks": ["ready", "ready"], "step": 17, "last_token_age_s": 1.5,
                                  "open_requests": 3, "running": 2, "queue": 1})"));
}

TEST(HealthJson, SaysAfterALossWhichRankWasLostAndWhatHappened) {
  const json body = json::parse(
      health_json({.state = "lost", .loss = Error{ErrorKind::kPeerLost, "rank 1 was killed", /*origin_rank=*/1}},
                  {.ranks = ranks_after_loss(3, 1)}));
  EXPECT_EQ(body["ranks"], json::parse(R"(["ended", "lost", "ended"])"));
  EXPECT_EQ(body["loss"], json::parse(R"({"rank": 1, "message": "rank 1 was killed"})"));
}

TEST(HealthJson, DoesNotBlameARankThatItDoesNotKnow) {
  const json body = json::parse(health_json({.state = "lost", .loss = Error{ErrorKind::kUnavailable, "no model"}},
                                            {.ranks = ranks_after_loss(2, std::nullopt)}));
  EXPECT_EQ(body["ranks"], json::parse(R"(["lost", "lost"])"));
  EXPECT_TRUE(body["loss"]["rank"].is_null());
}

}  // namespace
}  // namespace lockstep::serve
