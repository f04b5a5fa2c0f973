// The times of one sequence's tokens.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "runtime/core/clock.h"

namespace lockstep::generation {

struct TokenTimes {
  TimePoint submitted;          // submission of the sequence
  std::vector<TimePoint> made;  // [tokens]; drafted tokens of one step share a time

  /// From the submission to the first token (TTFT); empty without tokens.
  std::optional<Duration> time_to_first_token() const;

  /// The mean time between tokens (TPOT); empty with fewer than two tokens.
  std::optional<Duration> time_per_output_token() const;

  /// The latency of each token: of the first since the submission, of the others since the previous token. [tokens]
  std::vector<Duration> latencies() const;

  friend bool operator==(const TokenTimes&, const TokenTimes&) = default;
};

/// The mean time between tokens over several sequences, with equal weight for each token; empty if no sequence has two
/// tokens.
std::optional<Duration> time_per_output_token(std::span<const TokenTimes> sequences);

}  // namespace lockstep::generation
