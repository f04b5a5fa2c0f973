#include "engine/observe/observation.h"

#include <chrono>

#include "engine/group/gathering.h"
#include "engine/model/load.h"
#include "engine/observe/timed_bootstrap.h"
#include "runtime/core/atomic_file.h"

namespace lockstep::observe {
namespace {

size_t capacity_of(const ObserveOptions& options) {
  return options.is_on() ? static_cast<size_t>(options.trace_events) : 0;
}

}  // namespace

Observation::Observation(const ObserveOptions& options, group::Member& member)
    : options_(options), member_(member), collectives_(capacity_of(options)) {
  if (!options_.is_on()) return;
  member_.wrap_bootstrap([this](std::unique_ptr<transport::Bootstrap> inner) {
    return std::make_unique<TimedBootstrap>(std::move(inner), member_.clock(), collectives_);
  });
}

Result<void> Observation::begin(const model::Plan& plan, std::string_view backend) {
  if (!options_.is_on()) return ok();
  const device::RankPlace& place = plan.places[static_cast<size_t>(member_.rank())];
  host_ = place.host;
  cores_ = place.cores;
  run_ = run_labels(plan, backend);
  has_one_clock_ = device::on_one_host(plan.places);
  if (!has_one_clock_) {
    LOCKSTEP_TRY(pings_, group::ping(member_.bootstrap(), member_.clock()));
  }
  return ok();
}

device::Communicator* Observation::timed(device::Communicator* communicator) {
  if (!options_.is_on() || communicator == nullptr) return communicator;
  run_.emplace_back("communicator", communicator->name());
  communicator_ = std::make_unique<trace::TimedCommunicator>(*communicator, member_.clock(), collectives_);
  return communicator_.get();
}

shards::StepEngine& Observation::timed(shards::StepEngine& engine) {
  if (!options_.is_on()) return engine;
  steps_ = std::make_unique<StepClock>(engine, collectives_, member_.clock(), capacity_of(options_));
  return *steps_;
}

RequestLog* Observation::timed(actors::Sink& sink) {
  if (!options_.is_on()) return nullptr;
  requests_ = std::make_unique<RequestLog>(sink, member_.clock(), capacity_of(options_));
  start_time_s_ = to_seconds(std::chrono::system_clock::now().time_since_epoch());
  if (options_.metrics) {
    metrics_file_ = std::make_unique<PeriodicFile>(*options_.metrics, duration_of(options_.metrics_interval_s), [this] {
      return trace::to_prometheus(families_of(live_metrics()));
    });
  }
  return requests_.get();
}

RunMetrics Observation::live_metrics() const {
  RankMetrics rank{.rank = member_.rank(), .host = host_};
  const auto totals = steps_->totals();
  rank.prefill = totals[static_cast<size_t>(trace::StepPhase::kPrefill)];
  rank.decode = totals[static_cast<size_t>(trace::StepPhase::kDecode)];
  rank.memory.peak = model::peak_resident();
  return {.build = build_labels(),
          .run = run_,
          .start_time_s = start_time_s_,
          .is_complete = false,
          .requests = requests_->totals(),
          .ranks = {std::move(rank)}};
}

Result<std::optional<trace::GroupReport>> Observation::gather() {
  if (!options_.is_on()) return std::optional<trace::GroupReport>();
  trace::RankTimeline mine{.rank = member_.rank(), .host = host_, .cores = cores_};
  mine.phases = member_.phases().spans();
  mine.steps.assign(steps_->steps().begin(), steps_->steps().end());
  mine.collectives.assign(collectives_.entries().begin(), collectives_.entries().end());
  mine.dropped_steps = steps_->dropped();
  mine.dropped_collectives = collectives_.dropped();
  mine.step_totals = steps_->totals();
  mine.collective_totals = collectives_.totals();
  mine.pings_at_begin = std::move(pings_);
  if (!has_one_clock_) {
    LOCKSTEP_TRY(mine.pings_at_end, group::ping(member_.bootstrap(), member_.clock()));
  }
  LOCKSTEP_TRY(timelines_, group::gather_timelines(member_.bootstrap(), mine));
  if (timelines_.empty()) return std::optional<trace::GroupReport>();
  return std::optional(trace::report_of(timelines_));
}

Result<void> Observation::write_files(const trace::GroupReport& report, const std::vector<RankMemory>& memory,
                                      int64_t tokens) {
  metrics_file_.reset();
  if (options_.profile) member_.log().info("where the time went:\n{}", trace::to_table(report));
  if (options_.metrics) {
    RunMetrics metrics = live_metrics();
    metrics.is_complete = true;
    metrics.requests.tokens = tokens;  // tokens of beams are known at the end only
    metrics.ranks.clear();
    for (size_t i = 0; i < report.ranks.size(); ++i) {
      const trace::RankReport& rank = report.ranks[i];
      metrics.ranks.push_back({rank.rank, rank.host, rank.prefill.steps, rank.decode.steps, rank, memory[i]});
    }
    LOCKSTEP_TRY_VOID(write_text_file(*options_.metrics, trace::to_prometheus(families_of(metrics))));
  }
  if (!options_.trace) return ok();
  trace::RunTrace run{.ranks = std::move(timelines_), .requests = requests_->requests(), .facts = build_labels()};
  run.facts.insert(run.facts.end(), run_.begin(), run_.end());
  return write_text_file(*options_.trace, trace::to_chrome_json(run));
}

Result<void> Observation::write(const std::optional<trace::GroupReport>& report, const std::vector<RankMemory>& memory,
                                int64_t tokens) {
  if (!options_.is_on()) return ok();
  // Large files take time: the other ranks wait here, under the user's deadline.
  return member_.all_succeeded(report ? write_files(*report, memory, tokens) : ok());
}

}  // namespace lockstep::observe
