// The metrics of a run, made from values. During the run --metrics writes rank 0's own, at the end those of all ranks.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model/plan.h"
#include "engine/observe/request_log.h"
#include "lockstep/engine.h"
#include "runtime/trace/prometheus.h"
#include "runtime/trace/rank_report.h"

namespace lockstep::observe {

/// The program: version, build.
trace::Labels build_labels();
/// The run: model, backend, dtype, ranks, threads.
trace::Labels run_labels(const model::Plan& plan, std::string_view backend);

/// The metrics of one rank.
struct RankMetrics {
  int rank = 0;
  std::string host;
  trace::StepTotals prefill, decode;
  std::optional<trace::RankReport> report;  // at the end
  RankMemory memory;                        // during the run only the peak is known
};

/// The metrics of the whole run.
struct RunMetrics {
  trace::Labels build;        // version …
  trace::Labels run;          // model, backend …
  double start_time_s = 0.0;  // Unix time
  bool is_complete = false;
  RequestTotals requests;
  std::vector<RankMetrics> ranks;
};

/// Pure.
std::vector<trace::MetricFamily> families_of(const RunMetrics& metrics);

}  // namespace lockstep::observe
