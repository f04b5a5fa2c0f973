#include "launcher/serve/door/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::serve {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

const ApiRequest kRequest{.number = 1,
                          .id = "req_1",
                          .endpoint = "/v1/completions",
                          .peer = "",
                          .stream = true,
                          .choices = 1,
                          .prompt_tokens = 12};
const ApiEnd kEnd{
    .status = 200, .outcome = "stop", .error = "", .cached_tokens = 8, .new_tokens = 5, .duration = 105ms};

TEST(Metrics, HaveTheNamesThatDashboardsReadBeforeTheFirstRequest) {
  const std::string text = Metrics().text({});
  for (const char* name :
       {"lockstep_requests_running 0", "lockstep_requests_waiting 0", "lockstep_prompt_tokens_total 0",
        "lockstep_generation_tokens_total 0", "lockstep_prefix_cached_tokens_total 0",
        "lockstep_time_to_first_token_seconds_count 0", "lockstep_inter_token_latency_seconds_count 0",
        "lockstep_request_duration_seconds_count 0", "lockstep_request_queue_seconds_count 0",
        "lockstep_slots{state=\"free\"} 0", "lockstep_prefix_cache_hits_total 0", "lockstep_engine_restarts_total 0",
        "lockstep_healthy 0", "lockstep_ranks{state=\"ready\"} 0"}) {
    EXPECT_THAT(text, HasSubstr(std::string("\n") + name + "\n"));
  }
}

TEST(Metrics, CountARequestsTokensAndTimes) {
  Metrics metrics;
  metrics.on_started(kRequest);
  metrics.on_first_token(kRequest, 31ms);
  metrics.on_tokens(kRequest, 1, {});
  metrics.on_tokens(kRequest, 4, 80ms);
  ApiEnd end = kEnd;
  end.waited = 4ms;
  metrics.on_ended(kRequest, end);
  const std::string text = metrics.text({});
  for (const char* line :
       {"lockstep_prompt_tokens_total 12", "lockstep_generation_tokens_total 5",
        "lockstep_prefix_cached_tokens_total 8", "lockstep_prefix_cache_hits_total 1",
        "lockstep_time_to_first_token_seconds_bucket{le=\"0.025\"} 0",
        "lockstep_time_to_first_token_seconds_bucket{le=\"0.05\"} 1",
        "lockstep_inter_token_latency_seconds_bucket{le=\"0.01\"} 0",
        "lockstep_inter_token_latency_seconds_bucket{le=\"0.025\"} 4", "lockstep_inter_token_latency_seconds_count 4",
        "lockstep_request_duration_seconds_bucket{le=\"0.25\"} 1",
        "lockstep_request_queue_seconds_bucket{le=\"0.001\"} 0",
        "lockstep_request_queue_seconds_bucket{le=\"0.005\"} 1",
        "lockstep_requests_total{endpoint=\"/v1/completions\",status=\"200\"} 1",
        "lockstep_request_outcomes_total{outcome=\"stop\"} 1"}) {
    EXPECT_THAT(text, HasSubstr(std::string("\n") + line + "\n"));
  }
}

TEST(Metrics, CountAnswersThatNeededNoEngineByEndpointAndStatus) {
  Metrics metrics;
  metrics.on_answered({.endpoint = "/v1/models"}, 200);
  metrics.on_answered({.endpoint = "/v1/models"}, 401);
  metrics.on_answered({.endpoint = "/v1/models"}, 401);
  EXPECT_THAT(metrics.text({}), AllOf(HasSubstr("{endpoint=\"/v1/models\",status=\"200\"} 1\n"),
                                      HasSubstr("{endpoint=\"/v1/models\",status=\"401\"} 2\n")));
}

TEST(Metrics, ShowWhatTheEngineDoesNow) {
  Metrics metrics;
  Metrics::Reading reading{.is_healthy = true,
                           .status = {.running = 3, .queued = 2, .steps = 40, .ranks = {"ready", "ready", "lost"}},
                           .activity = {.slots = {{"decode"}, {"decode"}, {"prefill"}, {"free"}},
                                        .ranks = {{"ready", 1000}, {"ready", 2000}, {"lost", 0}}},
                           .http = {.connections = 7, .refused = 1}};
  std::string text = metrics.text(reading);
  for (const char* line :
       {"lockstep_healthy 1", "lockstep_requests_running 3", "lockstep_requests_waiting 2",
        "lockstep_engine_steps_total 40", "lockstep_slots{state=\"decode\"} 2", "lockstep_slots{state=\"prefill\"} 1",
        "lockstep_slots{state=\"free\"} 1", "lockstep_slots{state=\"kept\"} 0",
        "lockstep_rank_resident_bytes{rank=\"1\"} 2000", "lockstep_ranks{state=\"ready\"} 2",
        "lockstep_ranks{state=\"lost\"} 1", "lockstep_http_connections 7", "lockstep_http_refused_total 1"}) {
    EXPECT_THAT(text, HasSubstr(std::string("\n") + line + "\n"));
  }
  text = metrics.text({});  // the engine is gone
  for (const char* line : {"lockstep_healthy 0", "lockstep_requests_running 0", "lockstep_ranks{state=\"ready\"} 0"}) {
    EXPECT_THAT(text, HasSubstr(std::string("\n") + line + "\n"));
  }
}

TEST(Metrics, CountOnWhenTheEngineStartsAgainFromItsFirstStep) {
  Metrics metrics;
  metrics.text({.status = {.steps = 40}});
  metrics.text({.status = {.steps = 45}});
  EXPECT_THAT(metrics.text({.status = {.steps = 3}}), HasSubstr("\nlockstep_engine_steps_total 48\n"));
}

TEST(Metrics, KnowTheOpenRequests) {
  Metrics metrics;
  metrics.on_started(kRequest);
  metrics.on_tokens(kRequest, 5, 80ms);
  ASSERT_EQ(metrics.open().size(), 1u);
  EXPECT_EQ(metrics.open().at(1).request.endpoint, "/v1/completions");
  EXPECT_EQ(metrics.open().at(1).new_tokens, 5);
  metrics.on_ended(kRequest, kEnd);
  EXPECT_TRUE(metrics.open().empty());
  EXPECT_EQ(metrics.new_tokens(), 5u);
}

}  // namespace
}  // namespace lockstep::serve
