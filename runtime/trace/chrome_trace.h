// Chrome trace events of timelines ("Trace Event Format", Google, 2016: the JSON object format), for Perfetto
// (https://ui.perfetto.dev) and chrome://tracing.
//
//   process   rank 0 (node0)
//     thread  executor       phases ▸ schedules ▸ steps
//     thread  collectives    waiting, then the collective itself
//     thread  device         steps on a device beside the host
//     thread  requests       from submission to the last token (rank 0); tracks of the process in Perfetto
//     counter tokens of a step
//
// tests/viewer loads such files in Perfetto's own reader.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/trace/timeline.h"

namespace lockstep::trace {

/// One request, on the clock of rank 0.
struct RequestSpan {
  int64_t request = 0;
  TimePoint begin;
  std::optional<TimePoint> first_token;
  TimePoint end;
  int64_t tokens = 0;
  std::string reason;  // reason of its end
};

/// A run: the timelines of all ranks on one clock.
struct RunTrace {
  std::vector<RankTimeline> ranks;
  std::vector<RequestSpan> requests;
  std::vector<std::pair<std::string, std::string>> facts;  // program, model, …: of the file and of the slices "run"
};

/// The file's text. Times are microseconds since the earliest event. Pure.
std::string to_chrome_json(const RunTrace& run);

}  // namespace lockstep::trace
