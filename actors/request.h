// What a user asks for, and where the answer goes.
//
//   Request ──► Session::submit ──► coordinator ──► slots of every rank
//   Sink    ◄── on_token … on_token, on_finish      on the coordinator's thread of rank 0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "runtime/core/clock.h"
#include "runtime/core/ids.h"
#include "runtime/core/result.h"
#include "runtime/generation/finish_reason.h"
#include "runtime/generation/token_chooser.h"
#include "shards/step_engine.h"

namespace lockstep::actors {

enum class Logits { kOmit, kWanted };

/// When a request's tokens are handed to its sink: with those of the steps that follow, which costs the ranks least, or
/// each at once, for a person who reads along.
enum class Delivery { kTogether, kAtOnce };

/// What is made of a request's ids: an answer to them, or how likely each of them is after those before it.
enum class Task { kGenerate, kScore };

/// One prompt, or the rows of one chooser. Stops that only rank 0 can judge (stop strings, time) stay with the client:
/// its sink says when.
///
/// With a chooser the host picks the tokens: the prompts are the chooser's, it occupies `rows()` slots at once, and of
/// the parameters only `max_new_tokens` and `pad_id` count. The engine must return logits. The chooser is called on
/// rank 0's executor thread, never after `on_finish`; then the client reads its `sequences()`.
///
/// A text that is scored has at least two ids, and no parameters count. The engine must have score steps.
struct Request {
  RequestId id;
  std::vector<int32_t> ids;  // the prompt; at least one
  shards::SlotParameters parameters;
  Logits logits = Logits::kOmit;
  Delivery delivery = Delivery::kTogether;
  Task task = Task::kGenerate;
  std::shared_ptr<generation::TokenChooser> chooser = nullptr;  // null: the graph chooses. The client keeps it as well

  friend bool operator==(const Request&, const Request&) = default;
};

/// A token as the ranks made it. Valid during the call.
struct MadeToken {
  int32_t id = 0;
  TimePoint made;                      // when the step that made it had ended, on rank 0's clock
  std::span<const float> logits = {};  // f32 [vocabulary]: raw, when the request and the engine have them and the graph
                                       // chose
  std::shared_ptr<const generation::TokenRecord> record = nullptr;  // of a token that a chooser chose, where it has one
};

/// Whether a sequence goes on after a token.
enum class Verdict { kContinue, kStop };

/// Receives one or more answers. Called on the coordinator's thread, one call at a time: keep it short, or hand the
/// work on. Borrowed from `submit` until `on_finish` of the request has returned.
class Sink {
 public:
  virtual ~Sink() = default;

  /// `request` has its slots: steps are planned for it from now on. Not called for one that ends before.
  virtual void on_start(RequestId request) { static_cast<void>(request); }

  /// The first `tokens` of its prompt were in a slot already.
  virtual void on_reused(RequestId request, int64_t tokens) { static_cast<void>(request), static_cast<void>(tokens); }

  /// The next token of `request`, an EOS token included; with a chooser, a token that became certain (of beams none
  /// does). `kStop` makes this token the last: nothing follows but `on_finish`.
  virtual Verdict on_token(RequestId request, const MadeToken& token) = 0;

  /// How likely the next id of a text is that is scored: a row as the graph operation `score` makes it. The first row
  /// is that of the second id.
  virtual void on_score(RequestId request, std::span<const float> row) {
    static_cast<void>(request);
    static_cast<void>(row);
  }

  /// The session has ended with `error` before the request had; nothing follows. Like `on_finish`, unless it is
  /// overridden.
  virtual void on_abandoned(RequestId request, const Error& error) {
    const bool is_cancelled = error.kind == ErrorKind::kCancelled;
    on_finish(request, is_cancelled ? generation::FinishReason::kCancelled : generation::FinishReason::kError, error);
  }

  /// Exactly once for every submitted request that is not abandoned. `error` is set when the reason is `kError` or
  /// `kCancelled`.
  virtual void on_finish(RequestId request, generation::FinishReason reason, const std::optional<Error>& error) = 0;
};

}  // namespace lockstep::actors
