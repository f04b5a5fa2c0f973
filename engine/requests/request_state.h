// State of one request, shared by its handles, the session's sink and the delivery thread.
//
//   coordinator's thread   take, finish ──► text, stop strings, time limit ──► answers
//                                     └──► delivery thread: on_token, in order; then the request is done
//   any thread             RequestHandle: so_far, cancel, wait
//
// A suspended request keeps its tokens, and a later session continues it; until then `wait` returns an error.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "engine/requests/answer_text.h"
#include "engine/requests/delivery.h"
#include "engine/requests/history.h"
#include "engine/requests/parts.h"
#include "lockstep/request.h"
#include "runtime/core/clock.h"
#include "runtime/core/ids.h"

namespace lockstep::requests {

/// Thread-safe. Handles, sink and delivery share it and end in any order.
class RequestState : public std::enable_shared_from_this<RequestState> {
 public:
  /// Borrowed pointers outlive the session.
  struct Setup {
    size_t answers = 1;
    size_t parts = 1;
    const text::Tokenizer* tokenizer = nullptr;  // null: no texts and no stop strings
    std::vector<std::string> stop_strings;
    std::vector<int32_t> end_ids = {};  // they are not part of a text with special tokens
    bool special_text = false;
    int32_t model_logprobs = -1;       // records of tokens that the graph chose
    std::optional<Duration> max_time;  // from `start`: an older answer stops at its next token
    bool keeps_logits = false;
    OnToken on_token;
    const Clock* clock = nullptr;
    Delivery* delivery = nullptr;
  };

  /// The texts of the answers go on behind that of `prompt`.
  explicit RequestState(Setup setup, std::span<const int32_t> prompt = {});

  /// Calls into the engine; removed before the engine is destroyed.
  struct Links {
    std::function<void()> stop;  // ends all parts
    std::function<void(std::unique_lock<std::mutex>&, std::condition_variable&, const std::function<bool()>&)> wait;
  };
  void link(Links links);
  /// The number of its first part; only the first call counts.
  void set_number(int64_t number);
  int64_t number() const;

  // Called by the coordinator's thread.
  /// A part has its slots. Returns whether it is the first part since the request was submitted or resumed.
  bool start();
  /// Whether a part has received its slots since then.
  bool is_running() const;
  /// Notes that a slot held the first `tokens` tokens of the part's prompt; only the first call counts. Returns the
  /// tokens of the request's own prompt among them.
  int64_t note_cached(const Part& part, int64_t tokens);
  actors::Verdict take(const Part& part, const actors::MadeToken& token);
  /// The tokens made since the last call.
  int64_t take_count();
  /// Returns whether it was the last part; then `complete` follows.
  bool finish(const Part& part, FinishReason reason, const std::optional<Error>& error);
  /// Accepts no further token; `wait` returns `why`.
  void suspend(const Error& why);
  /// Whether `part` ended with `reason` before the suspension took a token from it.
  bool has_ended(const Part& part, FinishReason reason) const;
  /// Continues after `suspend`. The parts of `restarted` start again from their prompts: they first repeat the
  /// delivered tokens, and a differing token is an error.
  void resume(const std::vector<Part>& restarted);
  /// Takes the tokens of a part's answers that another engine has delivered, before the part is submitted here; one
  /// that restarts will repeat them. `answers`: [part.answers]. Returns whether the part is complete with them.
  Result<bool> adopt(const Part& part, std::span<const AnswerSoFar> answers);
  /// The tokens of each answer.
  std::vector<AnswerSoFar> history() const;

  /// The engine ends before the request does; `finish` follows for its open parts.
  void abandon();
  /// Wakes the callers of `wait`, after the last call of the caller's function.
  void complete();

  // Called by any thread.
  bool is_done() const;
  bool is_abandoned() const;
  void cancel();
  Result<std::vector<Answer>> wait();
  std::vector<int32_t> so_far(size_t answer) const;
  /// The time from which the answer's first token counts.
  TimePoint submitted(size_t answer) const;

  /// Calls the function once when the request is done, on the delivery thread; at once if it is done already.
  void on_done(std::function<void()> call);

 private:
  struct Row {
    Answer answer;
    std::unique_ptr<AnswerText> text;  // null without a tokenizer
    bool is_cut = false;               // stopped by the caller's function: later tokens are dropped
    bool is_complete = false;
    bool has_stopped = false;  // by its own stop string or time limit
    bool has_missed = false;   // a token was dropped while the request was suspended
    bool has_cached = false;   // `cached_tokens` is known
    size_t replayed = 0;       // delivered tokens that a restarted part must still repeat
  };

  /// Compares a repeated token with the delivered one; returns the verdict on the row.
  actors::Verdict replay(Row& row, int32_t id);
  /// Why the tokens of a row end its answer; none: they do not.
  static std::optional<FinishReason> end_of(const Row& row, const Part& part);
  /// Adds a token to a row; returns whether the row ends with it.
  bool add(Row& row, const actors::MadeToken& token);
  /// `token` with the record that the request asks for.
  actors::MadeToken recorded(const actors::MadeToken& token) const;
  void adopt_sequences(const Part& part);
  void finish_text(size_t index);
  void set_done();
  void deliver(size_t index, const actors::MadeToken& token);
  void call(const Token& token, size_t place, size_t text_size);
  static void cut(Row& row, size_t tokens, size_t text_size);

  const Setup setup_;
  mutable std::mutex mutex_;  // guards the fields below
  std::condition_variable changed_;
  std::vector<Row> rows_;  // [answers]
  size_t parts_left_;
  std::optional<TimePoint> started_;
  int64_t number_ = -1;
  int64_t uncounted_ = 0;  // tokens
  bool is_running_ = false;
  std::optional<Error> suspension_;
  bool is_cancelled_ = false;
  bool is_abandoned_ = false;
  bool is_done_ = false;
  std::optional<Error> error_;
  Links links_;
  std::function<void()> on_done_;
};

}  // namespace lockstep::requests
