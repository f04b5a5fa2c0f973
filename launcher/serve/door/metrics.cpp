#include "launcher/serve/door/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace lockstep::serve {
namespace {

using prometheus::Histogram;

prometheus::Gauge& gauge(prometheus::Registry& registry, const char* name, const char* help) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(registry).Add({});
}

prometheus::Counter& counter(prometheus::Registry& registry, const char* name, const char* help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry).Add({});
}

Histogram& histogram(prometheus::Registry& registry, const char* name, const char* help,
                     Histogram::BucketBoundaries at) {
  return prometheus::BuildHistogram().Name(name).Help(help).Register(registry).Add({}, std::move(at));
}

/// A counter of a total that is kept elsewhere and starts again from zero with the engine.
class FollowingCounter {
 public:
  explicit FollowingCounter(prometheus::Counter& counter) : counter_(counter) {}

  void follow(uint64_t total) {
    counter_.Increment(static_cast<double>(total >= last_ ? total - last_ : total));
    last_ = total;
  }

 private:
  prometheus::Counter& counter_;
  uint64_t last_ = 0;
};

/// Counts of things by their state.
class StateGauges {
 public:
  StateGauges(prometheus::Registry& registry, const char* name, const char* help, std::vector<std::string> states)
      : family_(prometheus::BuildGauge().Name(name).Help(help).Register(registry)), states_(std::move(states)) {}

  void set(const std::vector<std::string>& found) {
    for (const std::string& state : states_) {
      family_.Add({{"state", state}}).Set(static_cast<double>(std::ranges::count(found, state)));
    }
  }

 private:
  prometheus::Family<prometheus::Gauge>& family_;
  const std::vector<std::string> states_;
};

}  // namespace

struct Metrics::Series {
  prometheus::Registry registry;
  prometheus::Gauge& running = gauge(registry, "lockstep_requests_running", "Requests that hold slots.");
  prometheus::Gauge& waiting = gauge(registry, "lockstep_requests_waiting", "Requests that wait for a slot.");
  prometheus::Gauge& healthy = gauge(registry, "lockstep_healthy", "Whether /health answers 200.");
  prometheus::Counter& prompt_tokens =
      counter(registry, "lockstep_prompt_tokens_total", "Tokens of the prompts of requests that have begun.");
  prometheus::Counter& generation_tokens =
      counter(registry, "lockstep_generation_tokens_total", "Tokens of answers that have arrived.");
  prometheus::Counter& cached_tokens =
      counter(registry, "lockstep_prefix_cached_tokens_total", "Tokens of prompts that a slot already held.");
  prometheus::Counter& cache_hits =
      counter(registry, "lockstep_prefix_cache_hits_total", "Requests of which a slot already held a part.");
  FollowingCounter steps{counter(registry, "lockstep_engine_steps_total", "Steps that the ranks have run.")};
  FollowingCounter restarts{counter(registry, "lockstep_engine_restarts_total", "Restarts of the ranks.")};
  StateGauges slots{registry,
                    "lockstep_slots",
                    "Slots by what they do: each runs one sequence.",
                    {"free", "kept", "prefill", "decode"}};
  StateGauges ranks{registry, "lockstep_ranks", "Ranks by their state.", {"starting", "ready", "lost", "ended"}};
  prometheus::Family<prometheus::Gauge>& memory = prometheus::BuildGauge()
                                                      .Name("lockstep_rank_resident_bytes")
                                                      .Help("Memory of each rank's process.")
                                                      .Register(registry);
  prometheus::Family<prometheus::Counter>& requests = prometheus::BuildCounter()
                                                          .Name("lockstep_requests_total")
                                                          .Help("Answered requests by endpoint and status.")
                                                          .Register(registry);
  prometheus::Family<prometheus::Counter>& outcomes = prometheus::BuildCounter()
                                                          .Name("lockstep_request_outcomes_total")
                                                          .Help("How the requests that the engine got have ended.")
                                                          .Register(registry);
  prometheus::Gauge& connections = gauge(registry, "lockstep_http_connections", "Connections that are open.");
  FollowingCounter refused{
      counter(registry, "lockstep_http_refused_total", "Requests that were malformed, too large or too slow.")};
  FollowingCounter disconnects{
      counter(registry, "lockstep_http_disconnects_total", "Clients that left before their answer was complete.")};
  Histogram& first_token =
      histogram(registry, "lockstep_time_to_first_token_seconds", "From a request's arrival to its first token.",
                {0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120});
  Histogram& between_tokens =
      histogram(registry, "lockstep_inter_token_latency_seconds", "Between two tokens of a sequence.",
                {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5});
  Histogram& queue =
      histogram(registry, "lockstep_request_queue_seconds", "From a request's arrival at the engine to its first slot.",
                {0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120});
  Histogram& duration =
      histogram(registry, "lockstep_request_duration_seconds", "From a request's arrival to its answer's end.",
                {0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600});
};

Metrics::Metrics() : series_(std::make_unique<Series>()) {}
Metrics::~Metrics() = default;

void Metrics::on_started(const ApiRequest& request) {
  open_[request.number] = {request, std::chrono::steady_clock::now(), 0};
  series_->prompt_tokens.Increment(static_cast<double>(request.prompt_tokens));
}

void Metrics::on_first_token(const ApiRequest&, Duration waited) { series_->first_token.Observe(to_seconds(waited)); }

void Metrics::on_tokens(const ApiRequest& request, size_t count, Duration gap) {
  new_tokens_ += count;
  series_->generation_tokens.Increment(static_cast<double>(count));
  if (const auto at = open_.find(request.number); at != open_.end()) {
    at->second.new_tokens += static_cast<int64_t>(count);
  }
  if (gap <= Duration::zero()) return;
  for (size_t i = 0; i < count; ++i) series_->between_tokens.Observe(to_seconds(gap) / static_cast<double>(count));
}

void Metrics::on_ended(const ApiRequest& request, const ApiEnd& end) {
  open_.erase(request.number);
  on_answered(request, end.status);
  if (end.waited) series_->queue.Observe(to_seconds(*end.waited));
  series_->outcomes.Add({{"outcome", std::string(end.outcome)}}).Increment();
  series_->duration.Observe(to_seconds(end.duration));
  series_->cached_tokens.Increment(static_cast<double>(end.cached_tokens));
  if (end.cached_tokens > 0) series_->cache_hits.Increment();
}

void Metrics::on_answered(const ApiRequest& request, int status) {
  series_->requests.Add({{"endpoint", std::string(request.endpoint)}, {"status", std::to_string(status)}}).Increment();
}

std::string Metrics::text(const Reading& reading) {
  const EngineStatus& status = reading.status;
  series_->healthy.Set(reading.is_healthy ? 1 : 0);
  series_->running.Set(static_cast<double>(status.running));
  series_->waiting.Set(static_cast<double>(status.queued));
  series_->steps.follow(status.steps);
  std::vector<std::string> slots;
  for (const EngineActivity::Slot& slot : reading.activity.slots) slots.push_back(slot.state);
  series_->slots.set(slots);
  series_->ranks.set(status.ranks);
  for (size_t rank = 0; rank < reading.activity.ranks.size(); ++rank) {
    series_->memory.Add({{"rank", std::to_string(rank)}})
        .Set(static_cast<double>(reading.activity.ranks[rank].resident_bytes));
  }
  series_->restarts.follow(static_cast<uint64_t>(reading.restarts));
  series_->connections.Set(static_cast<double>(reading.http.connections));
  series_->refused.follow(reading.http.refused);
  series_->disconnects.follow(reading.http.disconnects);
  return prometheus::TextSerializer().Serialize(series_->registry.Collect());
}

}  // namespace lockstep::serve
