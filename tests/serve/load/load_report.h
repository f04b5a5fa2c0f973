// What a load has measured, and its report as JSON.
#pragma once

#include <string>
#include <vector>

namespace lockstep::load {

/// One turn of a conversation. Times are seconds; −1: it did not come to that.
struct TurnRecord {
  std::string group;
  int conversation = 0, turn = 0;
  double started_s = 0.0;  // since the begin of the load
  double ttft_s = -1.0;    // from the connection's begin to the first text
  double wall_s = -1.0;    // to the end of the answer
  int status = 0;          // of HTTP
  int tokens = 0;          // that the server counted; without usage, the events with text
  int prompt_tokens = 0, cached_tokens = 0;
  int events = 0;              // with text
  std::vector<double> gaps_s;  // between two of them
  std::string error;           // empty: the answer is complete
};

/// Nearest-rank percentiles.
struct Spread {
  size_t count = 0;
  double mean = 0.0, p50 = 0.0, p90 = 0.0, p99 = 0.0, max = 0.0;
};

Spread spread_of(std::vector<double> values);

/// `wall_s`: of the whole load. `cpu_s`: of this process.
std::string report_json(const std::vector<TurnRecord>& turns, double wall_s, double cpu_s);

}  // namespace lockstep::load
