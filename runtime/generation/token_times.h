// When the tokens of one sequence were made.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "runtime/core/clock.h"

namespace lockstep::generation {

struct TokenTimes {
  TimePoint submitted;          // when the sequence was asked for
  std::vector<TimePoint> made;  // [tokens]; drafted tokens of one step share a time

  /// From the submission to the first token (TTFT); empty while there is none.
  std::optional<Duration> time_to_first_token() const;

  /// The mean time from one token to the next (TPOT); empty with fewer than two tokens.
  std::optional<Duration> time_per_output_token() const;

  /// How long each token took: the first since the submission, the others since the one before. [tokens]
  std::vector<Duration> latencies() const;

  friend bool operator==(const TokenTimes&, const TokenTimes&) = default;
};

/// The mean time from one token to the next over several sequences, each token counting alike; empty where none has
/// two.
std::optional<Duration> time_per_output_token(std::span<const TokenTimes> sequences);

}  // namespace lockstep::generation
