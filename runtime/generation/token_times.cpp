#include "runtime/generation/token_times.h"

namespace lockstep::generation {

std::optional<Duration> TokenTimes::time_to_first_token() const {
  if (made.empty()) return std::nullopt;
  return made.front() - submitted;
}

std::optional<Duration> TokenTimes::time_per_output_token() const {
  if (made.size() < 2) return std::nullopt;
  return (made.back() - made.front()) / (made.size() - 1);
}

std::vector<Duration> TokenTimes::latencies() const {
  std::vector<Duration> latencies;
  latencies.reserve(made.size());
  TimePoint before = submitted;
  for (const TimePoint time : made) {
    latencies.push_back(time - before);
    before = time;
  }
  return latencies;
}

}  // namespace lockstep::generation
