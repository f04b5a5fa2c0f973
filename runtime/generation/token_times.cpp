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

std::optional<Duration> time_per_output_token(std::span<const TokenTimes> sequences) {
  Duration total{};
  int64_t intervals = 0;
  for (const TokenTimes& times : sequences) {
    if (times.made.size() < 2) continue;
    total += times.made.back() - times.made.front();
    intervals += std::ssize(times.made) - 1;
  }
  if (intervals == 0) return std::nullopt;
  return total / intervals;
}

}  // namespace lockstep::generation
