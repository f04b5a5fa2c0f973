#include "launcher/serve/door/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

namespace lockstep::serve {
namespace {

using prometheus::Histogram;

double seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

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

}  // namespace

struct Metrics::Series {
  prometheus::Registry registry;
  prometheus::Gauge& running = gauge(registry, "lockstep_requests_running", "Requests that hold slots.");
  prometheus::Gauge& waiting = gauge(registry, "lockstep_requests_waiting", "Requests that wait for a slot.");
  prometheus::Gauge& healthy = gauge(registry, "lockstep_healthy", "Whether /health answers 200.");
  prometheus::Gauge& slots = gauge(registry, "lockstep_slots", "Sequences that can run at once.");
  prometheus::Counter& prompt_tokens =
      counter(registry, "lockstep_prompt_tokens_total", "Tokens of the prompts of requests that have begun.");
  prometheus::Counter& generation_tokens =
      counter(registry, "lockstep_generation_tokens_total", "Tokens of answers that have arrived.");
  prometheus::Counter& cached_tokens =
      counter(registry, "lockstep_prefix_cached_tokens_total", "Tokens of prompts that a slot already held.");
  prometheus::Counter& cache_hits =
      counter(registry, "lockstep_prefix_cache_hits_total", "Requests of which a slot already held a part.");
  FollowingCounter steps{counter(registry, "lockstep_engine_steps_total", "Steps that the ranks have run.")};
  prometheus::Counter& restarts = counter(registry, "lockstep_engine_restarts_total", "Restarts of the ranks.");
  prometheus::Family<prometheus::Gauge>& ranks =
      prometheus::BuildGauge().Name("lockstep_ranks").Help("Ranks by their state.").Register(registry);
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

void Metrics::on_first_token(const ApiRequest&, Duration waited) { series_->first_token.Observe(seconds(waited)); }

void Metrics::on_tokens(const ApiRequest& request, size_t count, Duration gap) {
  new_tokens_ += count;
  series_->generation_tokens.Increment(static_cast<double>(count));
  if (const auto at = open_.find(request.number); at != open_.end()) {
    at->second.new_tokens += static_cast<int64_t>(count);
  }
  if (gap <= Duration::zero()) return;
  for (size_t i = 0; i < count; ++i) series_->between_tokens.Observe(seconds(gap) / static_cast<double>(count));
}

void Metrics::on_ended(const ApiRequest& request, const ApiEnd& end) {
  open_.erase(request.number);
  on_answered(request.endpoint, end.status);
  series_->outcomes.Add({{"outcome", std::string(end.outcome)}}).Increment();
  series_->duration.Observe(seconds(end.duration));
  series_->cached_tokens.Increment(static_cast<double>(end.cached_tokens));
  if (end.cached_tokens > 0) series_->cache_hits.Increment();
}

void Metrics::on_answered(std::string_view endpoint, int status) {
  series_->requests.Add({{"endpoint", std::string(endpoint)}, {"status", std::to_string(status)}}).Increment();
}

std::string Metrics::text(const Reading& reading) {
  const EngineStatus& status = reading.status;
  series_->healthy.Set(reading.is_healthy ? 1 : 0);
  series_->running.Set(static_cast<double>(status.running));
  series_->waiting.Set(static_cast<double>(status.queued));
  series_->slots.Set(static_cast<double>(reading.facts.slots));
  series_->steps.follow(status.steps);
  std::map<std::string, int> states;
  for (const char* state : {"starting", "ready", "lost", "ended"}) states[state] = 0;
  for (const std::string& state : status.ranks) ++states[state];
  for (const auto& [state, count] : states) series_->ranks.Add({{"state", state}}).Set(count);
  series_->connections.Set(static_cast<double>(reading.http.connections));
  series_->refused.follow(reading.http.refused);
  series_->disconnects.follow(reading.http.disconnects);
  return prometheus::TextSerializer().Serialize(series_->registry.Collect());
}

}  // namespace lockstep::serve
