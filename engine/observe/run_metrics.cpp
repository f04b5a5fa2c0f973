#include "engine/observe/run_metrics.h"

#include "engine/group/build_id.h"

namespace lockstep::observe {
namespace {

using trace::Labels, trace::MetricFamily, trace::PhaseReport, trace::PhaseSplit;

/// Families that have a sample for each rank, phase and kind; filled rank by rank.
class RankFamilies {
 public:
  void add(const RankMetrics& rank) {
    labels_ = {{"rank", std::to_string(rank.rank)}, {"host", rank.host}};
    add_steps("prefill", rank.prefill);
    add_steps("decode", rank.decode);
    if (rank.report) add_report(*rank.report);
    add_memory(rank.memory, rank.report.has_value());
  }

  std::vector<MetricFamily> families() && {
    return {std::move(steps_),       std::move(step_tokens_), std::move(device_), std::move(seconds_),
            std::move(collectives_), std::move(bytes_),       std::move(last_),   std::move(clock_error_),
            std::move(dropped_),     std::move(memory_),      std::move(peak_)};
  }

 private:
  Labels with(std::initializer_list<std::pair<std::string, std::string>> more) const {
    Labels labels = labels_;
    labels.insert(labels.end(), more);
    return labels;
  }

  void add_steps(const std::string& phase, const trace::StepTotals& steps) {
    steps_.samples.push_back({with({{"phase", phase}}), static_cast<double>(steps.steps)});
    step_tokens_.samples.push_back({with({{"phase", phase}}), static_cast<double>(steps.tokens)});
    if (!steps.is_on_device()) return;
    for (const auto& [part, time] : {std::pair{"device", steps.on_device.device},
                                     {"host_before", steps.before_device()},
                                     {"host_after", steps.on_device.after}}) {
      device_.samples.push_back({with({{"phase", phase}, {"part", part}}), to_seconds(time)});
    }
  }

  void add_split(const std::string& phase, const PhaseSplit& split) {
    seconds_.samples.push_back({with({{"phase", phase}, {"kind", "compute"}}), split.compute_s});
    seconds_.samples.push_back({with({{"phase", phase}, {"kind", "communication"}}), split.communication_s});
    seconds_.samples.push_back({with({{"phase", phase}, {"kind", "waiting"}}), split.waiting_s});
  }

  void add_report(const trace::RankReport& report) {
    for (const auto& [name, split] : report.phases) {
      if (name != "run") add_split(name, split);  // the steps of "run" are separate phases
    }
    for (const auto& [name, phase] : {std::pair{"prefill", &report.prefill}, {"decode", &report.decode}}) {
      add_split(name, phase->split);
      collectives_.samples.push_back({with({{"phase", name}}), static_cast<double>(phase->collectives.count)});
      bytes_.samples.push_back({with({{"phase", name}}), static_cast<double>(phase->collectives.bytes)});
      last_.samples.push_back({with({{"phase", name}}), static_cast<double>(phase->arrivals.last)});
    }
    clock_error_.samples.push_back({labels_, report.clock_error_s});
    dropped_.samples.push_back({with({{"kind", "collective"}}), static_cast<double>(report.dropped_collectives)});
    dropped_.samples.push_back({with({{"kind", "step"}}), static_cast<double>(report.dropped_steps)});
  }

  void add_memory(const RankMemory& memory, bool is_whole) {
    peak_.samples.push_back({labels_, static_cast<double>(memory.peak.value)});
    if (!is_whole) return;
    for (const auto& [kind, bytes] : {std::pair{"weights", memory.weights},
                                      {"states", memory.states_resident},
                                      {"states_reserved", memory.states_reserved},
                                      {"workspace", memory.workspace},
                                      {"loading_peak", memory.peak_loading}}) {
      memory_.samples.push_back({with({{"kind", kind}}), static_cast<double>(bytes.value)});
    }
  }

  Labels labels_;
  MetricFamily steps_{"lockstep_steps_total", "Steps of the model.", "counter", {}};
  MetricFamily step_tokens_{"lockstep_step_tokens_total", "Tokens that steps made.", "counter", {}};
  MetricFamily device_{"lockstep_step_part_seconds_total",
                       "Time of steps with a device beside the host: the device, and the host before and after it.",
                       "counter",
                       {}};
  MetricFamily seconds_{"lockstep_phase_seconds_total",
                        "Time of a rank by phase: computing, communicating, waiting for another rank.",
                        "counter",
                        {}};
  MetricFamily collectives_{"lockstep_collectives_total", "Collectives of the model's steps.", "counter", {}};
  MetricFamily bytes_{"lockstep_collective_bytes_total", "Bytes that a rank contributed to them.", "counter", {}};
  MetricFamily last_{"lockstep_collectives_entered_last_total",
                     "Collectives that this rank alone was the last to enter, of those recorded.",
                     "counter",
                     {}};
  MetricFamily clock_error_{
      "lockstep_clock_error_seconds", "How far off a rank's times may be from rank 0's.", "gauge", {}};
  MetricFamily dropped_{"lockstep_trace_dropped_total", "Events that found no room (--trace-events).", "counter", {}};
  MetricFamily memory_{"lockstep_memory_bytes", "Memory of a rank.", "gauge", {}};
  MetricFamily peak_{"lockstep_memory_peak_bytes", "Most memory ever resident in a rank's process.", "gauge", {}};
};

}  // namespace

Labels build_labels() { return {{"version", LOCKSTEP_VERSION}, {"build", group::build_id()}}; }

Labels run_labels(const model::Plan& plan, std::string_view backend) {
  return {{"model", plan.model.checkpoint ? plan.model.checkpoint->string() : "random weights"},
          {"backend", std::string(backend)},
          {"dtype", std::string(to_string(plan.model.shard.dtype))},
          {"ranks", std::to_string(plan.places.size())},
          {"threads", std::to_string(plan.threads)}};
}

std::vector<MetricFamily> families_of(const RunMetrics& metrics) {
  const RequestTotals& requests = metrics.requests;
  MetricFamily finished{"lockstep_requests_finished_total", "Requests that ended, by reason.", "counter", {}};
  for (const auto& [reason, count] : requests.finished) {
    finished.samples.push_back({{{"reason", reason}}, static_cast<double>(count)});
  }
  std::vector<MetricFamily> families = {
      {"lockstep_build_info", "The program; always 1.", "gauge", {{metrics.build, 1}}},
      {"lockstep_run_info", "The run; always 1.", "gauge", {{metrics.run, 1}}},
      {"lockstep_start_time_seconds", "When the steps began, unix time.", "gauge", {{{}, metrics.start_time_s}}},
      {"lockstep_run_complete", "1 when the run has ended well.", "gauge", {{{}, metrics.is_complete ? 1.0 : 0.0}}},
      {"lockstep_requests_submitted_total", "Requests.", "counter", {{{}, static_cast<double>(requests.submitted)}}},
      finished,
      {"lockstep_generated_tokens_total",
       "Tokens of answers.",
       "counter",
       {{{}, static_cast<double>(requests.tokens)}}},
      {"lockstep_time_to_first_token_seconds", "From submission to a request's first token.", "histogram",
       requests.first_token_s.samples()},
      {"lockstep_time_per_output_token_seconds", "Mean time between a request's tokens.", "histogram",
       requests.token_s.samples()}};
  RankFamilies ranks;
  for (const RankMetrics& rank : metrics.ranks) ranks.add(rank);
  for (MetricFamily& family : std::move(ranks).families()) families.push_back(std::move(family));
  return families;
}

}  // namespace lockstep::observe
