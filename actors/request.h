// Requests and the sinks that receive their answers.
//
//   Request ──► Session::submit ──► coordinator ──► slots of every rank
//   Sink    ◄── on_token … on_token, on_finish      on the coordinator's thread of rank 0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/core/clock.h"
#include "runtime/core/ids.h"
#include "runtime/core/result.h"
#include "runtime/generation/finish_reason.h"
#include "runtime/generation/token_chooser.h"
#include "shards/step_engine.h"

namespace lockstep::actors {

enum class Logits { kOmit, kWanted };

/// The delivery of a request's tokens to its sink: together with those of later steps, which costs the ranks least, or
/// each at once, for an interactive reader.
enum class Delivery { kTogether, kAtOnce };

/// The result of a request: an answer to its ids, or the log-probability of each id given those before it.
enum class Task { kGenerate, kScore };

/// One prompt, or the rows of one chooser. The client's sink decides stops that only rank 0 can judge (stop strings,
/// time).
///
/// With a chooser, the host chooses the tokens: the chooser provides the prompts, the request occupies `rows()` slots
/// at once, and only the parameters `max_new_tokens` and `pad_id` apply. The engine must return logits. The chooser is
/// called on rank 0's executor thread, never after `on_finish`; then the client reads its `sequences()`.
///
/// A text to score has at least two ids, and no parameters apply. The engine must have score steps.
struct Request {
  RequestId id;
  std::vector<int32_t> ids;  // the prompt; at least one. An id may be shards::kEmbedded
  shards::SlotParameters parameters;
  Logits logits = Logits::kOmit;
  Delivery delivery = Delivery::kTogether;
  Task task = Task::kGenerate;
  std::shared_ptr<generation::TokenChooser> chooser = nullptr;     // null: the graph chooses. Shared with the client
  std::shared_ptr<const std::vector<float>> embeddings = nullptr;  // [ids kEmbedded, embedding size]; of a chooser's
                                                                   // first prompt
  int32_t priority = 0;                    // a waiting request with a higher one gets its slots first
  std::string client = {};                 // waiting clients of one priority take turns
  std::optional<TimePoint> deadline = {};  // then it ends with kDeadlineExceeded, waiting or running

  friend bool operator==(const Request&, const Request&) = default;
};

/// A generated token. Valid during the call.
struct MadeToken {
  int32_t id = 0;
  TimePoint made;                      // end of its step, on rank 0's clock
  std::span<const float> logits = {};  // f32 [vocabulary]: raw logits, if the request wants them and the graph chose
                                       // the token
  std::shared_ptr<const generation::TokenRecord> record = nullptr;  // from a chooser that keeps records
};

/// Whether a sequence continues after a token.
enum class Verdict { kContinue, kStop };

/// Receives one or more answers. Called on the coordinator's thread, one call at a time; implementations return
/// quickly. Borrowed from `submit` until `on_finish` of the request has returned.
class Sink {
 public:
  virtual ~Sink() = default;

  /// `request` has its slots and will run in the next schedule. Not called for a request that ends before.
  virtual void on_start(RequestId request) { static_cast<void>(request); }

  /// A slot already held the first `tokens` tokens of its prompt.
  virtual void on_reused(RequestId request, int64_t tokens) { static_cast<void>(request), static_cast<void>(tokens); }

  /// The next token of `request`, an EOS token included; with a chooser, the next certain token (beam search has none
  /// before its end). After `kStop` only `on_finish` follows.
  virtual Verdict on_token(RequestId request, const MadeToken& token) = 0;

  /// The score of the next id of a text: a row of the graph operation `score`, and the logits [vocabulary] where the
  /// engine outputs them. The first row belongs to the second id.
  virtual void on_score(RequestId request, std::span<const float> row, std::span<const float> logits) {
    static_cast<void>(request), static_cast<void>(row), static_cast<void>(logits);
  }

  /// The session ended with `error` before the request did; no other call follows. Calls `on_finish` by default.
  virtual void on_abandoned(RequestId request, const Error& error) {
    const bool is_cancelled = error.kind == ErrorKind::kCancelled;
    on_finish(request, is_cancelled ? generation::FinishReason::kCancelled : generation::FinishReason::kError, error);
  }

  /// Exactly once for every submitted request that is not abandoned. `error` is set when the reason is `kError` or
  /// `kCancelled`.
  virtual void on_finish(RequestId request, generation::FinishReason reason, const std::optional<Error>& error) = 0;
};

}  // namespace lockstep::actors
