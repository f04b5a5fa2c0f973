// The metrics of a run, from values: what --metrics writes while it runs (what rank 0 knows of itself) and at its end
// (all ranks).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/observe/request_log.h"
#include "lockstep/engine.h"
#include "runtime/trace/prometheus.h"
#include "runtime/trace/rank_report.h"

namespace lockstep::observe {

/// One rank's part.
struct RankMetrics {
  int rank = 0;
  std::string host;
  trace::StepTotals prefill, decode;
  std::optional<trace::RankReport> report;  // at the end
  RankMemory memory;                        // while the run lasts only the peak is known
};

/// Everything.
struct RunMetrics {
  trace::Labels build;        // version …
  trace::Labels run;          // model, backend …
  double start_time_s = 0.0;  // unix time
  bool is_complete = false;
  RequestTotals requests;
  std::vector<RankMetrics> ranks;
};

/// Pure.
std::vector<trace::MetricFamily> families_of(const RunMetrics& metrics);

}  // namespace lockstep::observe
