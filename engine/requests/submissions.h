// All requests of an engine on rank 0, from submission to their results.
//
//   Request ──► check, parts_of ──► Session::submit
//   RequestState ◄── take, finish ◄── Submissions (the session's sink, coordinator's thread)
//
// Requests may outlive a session (suspension.cpp): the next session gets what remains of a suspended request.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "actors/session.h"
#include "engine/requests/delivery.h"
#include "engine/requests/history.h"
#include "engine/requests/parts.h"
#include "engine/requests/request_state.h"
#include "engine/requests/text_scores.h"
#include "lockstep/engine.h"
#include "lockstep/model.h"
#include "lockstep/options.h"
#include "lockstep/request.h"

namespace lockstep::requests {

/// Thread-safe, except the sink's methods, which the coordinator's thread calls.
class Submissions final : public actors::Sink {
 public:
  explicit Submissions(Serving serving) : serving_(serving) {}
  ~Submissions() override;

  /// Submits requests to `session` from here on. Its results go to `sink`: this object, or a sink that forwards to this
  /// object. Both outlive the requests.
  void open(actors::Session& session, actors::Sink& sink, RequestState::Links links);

  /// Queues all requests or none. Fails with `kInvalidArgument` for a request that no slot can hold, with
  /// `kUnsupported` for one that this engine cannot serve, naming the option.
  Result<std::vector<std::shared_ptr<RequestState>>> submit(std::vector<Request> requests);

  /// Suspends every open request; the session has no work left afterwards.
  void suspend();
  /// Whether requests are suspended or being suspended.
  bool has_suspended() const;
  /// Submits what remains of each suspended request to the session of `open`. A request with its caller's chooser fails
  /// with `kUnsupported`, because the chooser cannot restart.
  void resume();
  /// The suspended requests. Fails with `kUnsupported` if one has functions of its caller.
  Result<std::vector<SuspendedRequest>> suspended() const;
  /// Queues the suspended requests of another engine. Fails as `submit`, and with `kInvalidArgument` for a history that
  /// does not fit its request.
  Result<std::vector<std::shared_ptr<RequestState>>> restore(std::vector<SuspendedRequest> requests);

  /// Queues all texts or none. Fails as `submit`.
  Result<std::vector<std::shared_ptr<TextScores>>> submit_texts(std::span<const std::vector<int32_t>> texts,
                                                                int64_t top);
  /// The number of the request that `part` belongs to; −1 of a text or of a request that is done.
  int64_t number_of(RequestId part) const;

  void on_start(RequestId request) override;
  actors::Verdict on_token(RequestId request, const actors::MadeToken& token) override;
  void on_reused(RequestId request, int64_t tokens) override;
  void on_score(RequestId request, std::span<const float> row, std::span<const float> logits) override;
  void on_finish(RequestId request, generation::FinishReason reason, const std::optional<Error>& error) override;
  void on_abandoned(RequestId request, const Error& error) override;

  /// Waits until callers' functions have returned. Must not be called from one of them. @blocking
  void finish_calls() { delivery_.wait_idle(); }

  /// Called with each request before the session receives it, and the time of its submission, for logs and counters.
  std::function<void(const actors::Request&, TimePoint submitted)> on_submit;

  EngineCounters counters() const;

 private:
  struct Entry {
    std::shared_ptr<RequestState> state;     // shared with its handles
    std::shared_ptr<const Request> request;  // shared by its parts
    Part part;
  };

  Result<std::vector<Part>> checked_parts(const Request& request) const;
  std::shared_ptr<RequestState> state_of(const Request& request, const std::vector<Part>& parts);
  /// Counts and submits new requests; each element holds the open parts of one.
  void submit(std::vector<std::vector<Entry>> requests);
  void finish_at_once(RequestState& state);
  /// Adds what remains of `entries`, all of one request, to the open requests and to `all`.
  void open(std::vector<Entry> entries, std::vector<actors::Request>& all);
  /// The request to submit for a part that may already have tokens.
  static actors::Request remaining(const Entry& entry);

  Result<void> check_is_running() const;
  /// Moves a part from the open to the suspended requests.
  void park(RequestId request);
  /// Opens the suspended parts of one request again, as `open`.
  void resume(std::vector<Entry> entries, std::vector<actors::Request>& all);
  /// Gives new choosers to the parts that have one, and returns those that restart from their prompts.
  Result<std::vector<Part>> restart(std::vector<Entry>& entries) const;
  /// The tokens that the records and logits of continued answers belong to.
  enum class Records { kOfAllTokens, kOfLaterTokens };
  /// The parts that have work left after the tokens of `answers`, which are those of the whole request; none: it
  /// begins. With Records::kOfAllTokens a part that makes records begins again. Fails as `adopt_history`.
  Result<std::vector<Entry>> open_parts(const std::shared_ptr<RequestState>& state,
                                        const std::shared_ptr<const Request>& request, std::vector<Part> parts,
                                        const std::optional<std::vector<AnswerSoFar>>& answers, Records records) const;
  /// Gives `part` its tokens of `answers`, which are those of the whole request; returns whether it is complete with
  /// them. Fails with `kInvalidArgument` for tokens that no engine makes for it.
  Result<bool> adopt_history(RequestState& state, const Part& part, const std::vector<AnswerSoFar>& answers) const;

  Entry& at(RequestId request);
  std::shared_ptr<TextScores> open_text(std::vector<int32_t> ids, int64_t top, std::vector<actors::Request>& all);
  bool finish_text(RequestId request, const std::optional<Error>& error);

  const Serving serving_;
  Delivery delivery_;
  actors::Session* session_ = nullptr;
  actors::Sink* sink_ = nullptr;
  RequestState::Links links_;
  mutable std::mutex mutex_;         // guards the fields below
  std::map<RequestId, Entry> open_;  // stable addresses
  std::map<RequestId, std::shared_ptr<TextScores>> texts_;
  std::vector<Entry> suspended_;  // ordered by id
  bool is_suspending_ = false;
  int64_t next_id_ = 0;
  EngineCounters counters_;
};

}  // namespace lockstep::requests
