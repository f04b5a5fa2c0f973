// Where generated text goes as it is made, and when each token came.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "runtime/core/clock.h"
#include "runtime/generation/finish_reason.h"

namespace lockstep::generation {

/// Receives one sequence's text: any number of `put`, then one `end`. Used by one thread.
class Streamer {
 public:
  virtual ~Streamer() = default;

  /// The next piece of text: whole characters, maybe none.
  virtual void put(std::string_view text) = 0;
  virtual void end(FinishReason reason) = 0;
};

/// When the tokens of one sequence came. Borrows its clock.
class TokenTimes {
 public:
  /// The sequence was asked for now.
  explicit TokenTimes(const Clock& clock) : clock_(&clock), asked_(clock.now()) {}

  /// A token came now.
  void record() { came_.push_back(clock_->now()); }

  size_t tokens() const { return came_.size(); }

  /// From the request to the first token (TTFT); empty while there is none.
  std::optional<Duration> time_to_first_token() const;

  /// The mean time from one token to the next (TPOT); empty with fewer than two tokens.
  std::optional<Duration> time_per_output_token() const;

  /// How long each token took: the first since the request, the others since the one before. [tokens]
  std::vector<Duration> latencies() const;

 private:
  const Clock* clock_;
  TimePoint asked_;
  std::vector<TimePoint> came_;
};

}  // namespace lockstep::generation
