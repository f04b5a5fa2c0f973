#include "runtime/generation/streamer.h"

namespace lockstep::generation {

std::optional<Duration> TokenTimes::time_to_first_token() const {
  if (came_.empty()) return std::nullopt;
  return came_.front() - asked_;
}

std::optional<Duration> TokenTimes::time_per_output_token() const {
  if (came_.size() < 2) return std::nullopt;
  return (came_.back() - came_.front()) / (came_.size() - 1);
}

std::vector<Duration> TokenTimes::latencies() const {
  std::vector<Duration> latencies;
  latencies.reserve(came_.size());
  TimePoint before = asked_;
  for (const TimePoint time : came_) {
    latencies.push_back(time - before);
    before = time;
  }
  return latencies;
}

}  // namespace lockstep::generation
