// The interface for choosing a request's tokens on the host, for methods beyond the graphs.
//
// The host gets the logits of all rows of the request and returns the next input of each row. Like Hugging Face's
// `custom_generate`, an implementation is a custom decoding loop, with cache, batching and transport provided.
//
//   prompts ─► prefill ─► logits [rows, V] ─► choose ─► tokens, sources ─► decode ─► logits ─► choose ─► … ─► sequences
//                                                        row r continues from the cache of row sources[r]
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "runtime/core/result.h"
#include "runtime/generation/finish_reason.h"
#include "runtime/generation/token_record.h"

namespace lockstep::generation {

/// The next inputs of a request's rows.
struct Choice {
  std::vector<int32_t> tokens;      // [rows] the next input of each row
  std::vector<int32_t> sources;     // [rows] the row whose cache each row continues from
  bool finished = false;            // no more inputs follow
  std::optional<Error> error = {};  // ends the request with it; the other fields do not count

  friend bool operator==(const Choice&, const Choice&) = default;
};

/// One answer.
struct Sequence {
  std::vector<int32_t> ids;  // new tokens, including a final end token
  double score = 0.0;        // of a beam: sum of log-probabilities / length ^ length_penalty
  FinishReason reason = FinishReason::kLength;
  std::vector<std::shared_ptr<const TokenRecord>> records;  // [ids]; empty if records are off
};

/// Deterministic: equal logits give equal choices. Used by one thread at a time.
class TokenChooser {
 public:
  virtual ~TokenChooser() = default;

  /// The number of slots that the request occupies.
  virtual int64_t rows() const = 0;

  /// [rows] A row with an empty prompt is not prefilled and starts as a copy of another row. Called when the request
  /// begins; time limits start here.
  virtual std::vector<std::vector<int32_t>> prompts() const = 0;

  /// Continues after `tokens` as if it had chosen them, so that its prompts end with them. Called before `prompts`,
  /// once at most. Fails with `kUnsupported` where more than the tokens decides what comes next.
  virtual Result<void> follow(std::span<const int32_t> tokens) {
    return Error{ErrorKind::kUnsupported,
                 fmt::format("[runtime/generation] cannot go on after {} tokens: found a chooser with more state than "
                             "tokens, expected one without; submit the request again",
                             tokens.size())};
  }

  /// `logits` f32 [rows, V], raw. In the first call only rows with a prompt are valid. Not called again after a
  /// finished choice.
  virtual Choice choose(std::span<const float> logits) = 0;

  /// The ids that became final with the last choice, for a streamer; empty if they are final only at the end.
  virtual std::span<const int32_t> certain() const = 0;

  /// The records of those ids, if any.
  virtual std::vector<std::shared_ptr<const TokenRecord>> certain_records() const { return {}; }

  /// The answers so far, best first; complete after a finished choice.
  virtual std::vector<Sequence> sequences() const = 0;
};

}  // namespace lockstep::generation
