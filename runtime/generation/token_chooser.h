// How the tokens of a request are chosen where a graph alone cannot: the host sees the gathered logits of all rows of
// the request and says what each row is fed next. The counterpart of Hugging Face's `custom_generate`: whoever
// implements this interface brings a decoding loop of their own, with cache, batching and transport prepared.
//
//   prompts ─► prefill ─► logits [rows, V] ─► choose ─► tokens, sources ─► decode ─► logits ─► choose ─► … ─► sequences
//                                                        row r goes on from the cache of row sources[r]
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "runtime/generation/finish_reason.h"
#include "runtime/generation/token_record.h"

namespace lockstep::generation {

/// What the rows of a request do next.
struct Choice {
  std::vector<int32_t> tokens;   // [rows] fed next
  std::vector<int32_t> sources;  // [rows] whose cache a row goes on with, before it is fed
  bool finished = false;         // nothing is fed any more

  friend bool operator==(const Choice&, const Choice&) = default;
};

/// One answer.
struct Sequence {
  std::vector<int32_t> ids;  // new tokens, up to and with an end token
  double score = 0.0;        // of a beam: the sum of its log-probabilities over its length to the length penalty
  FinishReason reason = FinishReason::kLength;
  std::vector<std::shared_ptr<const TokenRecord>> records;  // [ids]; empty when none were asked for
};

/// Deterministic: the same logits give the same choices. Used by one thread at a time.
class TokenChooser {
 public:
  virtual ~TokenChooser() = default;

  /// The slots that the request occupies.
  virtual int64_t rows() const = 0;

  /// [rows] A row with an empty prompt is not prefilled: it begins as a copy of another. Asked for when the request
  /// begins: time limits count from there.
  virtual std::vector<std::vector<int32_t>> prompts() const = 0;

  /// `logits` f32 [rows, V], raw; in the first call only those of rows with a prompt mean something. Not called again
  /// when the choice said finished.
  virtual Choice choose(std::span<const float> logits) = 0;

  /// The ids that became certain with the last choice, for a streamer; empty when only the end tells.
  virtual std::span<const int32_t> certain() const = 0;

  /// The records of those ids, where there are any; else empty.
  virtual std::vector<std::shared_ptr<const TokenRecord>> certain_records() const { return {}; }

  /// The answers, best first, as far as they are: all of them when finished.
  virtual std::vector<Sequence> sequences() const = 0;
};

}  // namespace lockstep::generation
