// The requests of an engine on rank 0: from a Request to what the session runs, and from the session's tokens back to
// the request's state.
//
//   Request ──► make: checks, parts, chooser ──► Session::submit
//   RequestState ◄── take, finish ◄── Submissions (the session's sink, coordinator's thread)
//
// Requests may outlive a session: those that are suspended with it are submitted to the next one for what is left.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "actors/session.h"
#include "engine/requests/delivery.h"
#include "engine/requests/history.h"
#include "engine/requests/request_check.h"
#include "engine/requests/request_state.h"
#include "engine/requests/text_scores.h"
#include "lockstep/engine.h"
#include "lockstep/model.h"
#include "lockstep/options.h"
#include "lockstep/request.h"

namespace lockstep::requests {

/// What requests are checked against and made from. Everything is borrowed and outlives the engine.
struct Serving {
  const Model& model;
  const Clock& clock;
  const text::Tokenizer* tokenizer = nullptr;  // null: the model has none
  Limits limits;
  OnLoss on_loss = OnLoss::kFail;
};

/// Thread-safe, except the sink's methods, which the coordinator's thread calls.
class Submissions final : public actors::Sink {
 public:
  explicit Submissions(Serving serving) : serving_(serving) {}
  ~Submissions() override;

  /// Starts to pass requests on. `sink` is what the session is given: this object, or what stands before it. Both
  /// outlive the requests.
  void open(actors::Session& session, actors::Sink& sink, RequestState::Links links);

  /// Queues all or none. Fails with `kInvalidArgument` for a request that no slot can hold, with `kUnsupported` for one
  /// that this engine cannot serve, naming the option.
  Result<std::vector<std::shared_ptr<RequestState>>> submit(std::vector<Request> requests);

  /// Suspends all that is open, in good order: the session has nothing left to do then.
  void suspend();
  /// Whether requests wait for a session that goes on with them.
  bool has_suspended() const;
  /// Submits them to the session of `open` for what is left of them. One with a chooser of its own, which cannot begin
  /// again, fails with `kUnsupported`.
  void resume();
  /// Those that are suspended. Fails with `kUnsupported` where one has code of its caller's.
  Result<std::vector<SuspendedRequest>> suspended() const;
  /// Queues requests of another engine. Fails as `submit`, and for histories that cannot be.
  Result<std::vector<std::shared_ptr<RequestState>>> restore(std::vector<SuspendedRequest> requests);

  /// Scores all texts or none. Fails likewise. @blocking
  Result<std::vector<std::vector<TokenScore>>> score(std::span<const std::vector<int32_t>> texts, int64_t top);

  void on_start(RequestId request) override;
  actors::Verdict on_token(RequestId request, const actors::MadeToken& token) override;
  void on_reused(RequestId request, int64_t tokens) override;
  void on_score(RequestId request, std::span<const float> row) override;
  void on_finish(RequestId request, generation::FinishReason reason, const std::optional<Error>& error) override;
  void on_abandoned(RequestId request, const Error& error) override;

  /// Waits until callers' functions have returned. Not from one of them. @blocking
  void finish_calls() { delivery_.wait_idle(); }

  /// Called with the ids of each request that is about to be submitted, for a log.
  std::function<void(RequestId)> on_submit;

  EngineCounters counters() const;

 private:
  struct Entry {
    std::shared_ptr<RequestState> state;     // shared with its handles
    std::shared_ptr<const Request> request;  // shared by its parts
    Part part;
  };

  Result<std::vector<Part>> parts_of(const Request& request, bool by_host) const;
  Result<std::shared_ptr<TokenChooser>> chooser_of(const Request& request, int32_t budget, uint64_t row) const;
  std::shared_ptr<RequestState> state_of(const Request& request, const std::vector<Part>& parts);
  /// Adds what is left of `entries`, all of one request, to those that are open, and to `all`.
  void open(std::vector<Entry> entries, std::vector<actors::Request>& all);
  /// What a session runs of a part that may have tokens already.
  Result<actors::Request> rest_of(const Entry& entry) const;
  bool begins_again(const Part& part) const { return part.request.chooser != nullptr; }
  Result<bool> adopt_history(RequestState& state, const Part& part, const std::vector<AnswerSoFar>& answers) const;
  void park(RequestId request);
  void resume(std::vector<Entry> entries, std::vector<actors::Request>& all);
  Entry& at(RequestId request);
  std::shared_ptr<TextScores> open_text(std::vector<int32_t> ids, int64_t top, std::vector<actors::Request>& all);
  bool finish_text(RequestId request, const std::optional<Error>& error);

  const Serving serving_;
  Delivery delivery_;
  actors::Session* session_ = nullptr;
  actors::Sink* sink_ = nullptr;
  RequestState::Links links_;
  mutable std::mutex mutex_;         // of what follows
  std::map<RequestId, Entry> open_;  // stable addresses
  std::map<RequestId, std::shared_ptr<TextScores>> texts_;
  std::vector<Entry> suspended_;  // in the order of their ids
  bool is_suspending_ = false;
  int64_t next_id_ = 0;
  EngineCounters counters_;
};

}  // namespace lockstep::requests
