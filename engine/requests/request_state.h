// One request under way: what its handles, the session's sink and the delivery thread share.
//
//   coordinator's thread   take, finish ──► text, stop strings, time limit ──► answers
//                                     └──► delivery thread: on_token, in order; then the request is done
//   any thread             RequestHandle: so_far, cancel, wait
//
// A request may be suspended: it keeps its tokens, `wait` returns why, and a later session goes on with it.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "actors/request.h"
#include "engine/requests/answer_text.h"
#include "engine/requests/delivery.h"
#include "engine/requests/history.h"
#include "lockstep/request.h"
#include "runtime/core/clock.h"
#include "runtime/core/ids.h"

namespace lockstep::requests {

/// A part of a request: what the session runs as one. Several answers where beams return several sequences.
struct Part {
  actors::Request request;
  size_t first_answer = 0;
  size_t answers = 1;
  bool as_made = true;  // false: tokens are known at the end only (beams)
};

/// Thread-safe. Shared by handles, sink and delivery, which end in any order.
class RequestState : public std::enable_shared_from_this<RequestState> {
 public:
  /// What a request is made from. Borrowed pointers outlive the session.
  struct Setup {
    size_t answers = 1;
    size_t parts = 1;
    const text::Tokenizer* tokenizer = nullptr;  // null: no texts and no stop strings
    std::vector<std::string> stop_strings;
    std::optional<Duration> max_time;  // from `start`: an answer that is older stops with its next token
    bool keeps_logits = false;
    OnToken on_token;
    const Clock* clock = nullptr;
    Delivery* delivery = nullptr;
  };

  explicit RequestState(Setup setup);

  /// What a request asks of its engine; taken back before the engine is gone.
  struct Links {
    std::function<void()> stop;  // ends all parts
    std::function<void(std::unique_lock<std::mutex>&, std::condition_variable&, const std::function<bool()>&)> wait;
  };
  void link(Links links);

  // The coordinator's thread.
  /// The first of its parts has its slots; whether it is the first since the request was submitted or resumed.
  bool start();
  bool has_started() const;
  actors::Verdict take(const Part& part, const actors::MadeToken& token);
  /// Whether it was the last part: then `complete` follows.
  bool finish(const Part& part, FinishReason reason, const std::optional<Error>& error);
  /// No token is taken any more; `wait` returns `why`.
  void suspend(const Error& why);
  /// Whether `part` has ended though the request is suspended: with `reason`, and with all tokens before taken.
  bool has_ended(const Part& part, FinishReason reason) const;
  /// The request goes on. A part that is made anew from its prompt (`replayed`) first repeats the tokens that were
  /// delivered: they must be the same ones.
  void resume(const std::vector<Part>& replayed);
  /// The ids of one answer that was made in another engine, before the request is submitted here; `reason` where the
  /// answer is complete.
  Result<void> adopt_ids(size_t answer, std::span<const int32_t> ids, std::optional<FinishReason> reason);

  /// A part of it was complete when it came from another engine.
  void finish_adopted();
  /// The tokens of each answer.
  std::vector<AnswerSoFar> history() const;

  /// Tells whoever waits, behind the last call of the caller's function.
  void complete();

  // Any thread.
  bool is_done() const;
  void cancel();
  Result<std::vector<Answer>> wait();
  std::vector<int32_t> so_far(size_t answer) const;

  int64_t tokens() const;
  /// Called once when the request is done, on the delivery thread; at once where it is done already.
  void on_done(std::function<void()> call);

 private:
  struct Row {
    Answer answer;
    std::unique_ptr<AnswerText> text;  // null without a tokenizer
    bool is_cut = false;               // the caller's function has stopped it: what follows is dropped
    bool is_complete = false;
    bool has_stopped = false;  // by itself: a stop string, its time
    bool has_missed = false;   // a token came while the request was suspended
    size_t replayed = 0;       // tokens that come again before new ones do
  };

  /// Compares a token that comes again with the one that was delivered; the verdict on the row.
  actors::Verdict replay(Row& row, int32_t id);
  /// Adds a token to a row; whether the row ends with it.
  bool add(Row& row, const actors::MadeToken& token);
  void adopt(const Part& part);
  void finish_text(size_t index);
  void deliver(size_t index, const actors::MadeToken& token);
  void call(const Token& token, size_t place, size_t text_size);
  static void cut(Row& row, size_t tokens, size_t text_size);

  const Setup setup_;
  mutable std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  std::vector<Row> rows_;  // [answers]
  size_t parts_left_;
  std::optional<TimePoint> started_;
  bool is_running_ = false;
  std::optional<Error> suspension_;
  bool is_cancelled_ = false;
  bool is_done_ = false;
  std::optional<Error> error_;
  Links links_;
  std::function<void()> on_done_;
};

}  // namespace lockstep::requests
