// Submitted requests and texts that a Python thread waits for. Python's signals (Ctrl-C) interrupt every wait.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "engine/python/call_state.h"
#include "lockstep/engine.h"

namespace lockstep::python {

/// A finished answer, and the vocabulary that its arrays have.
struct FinishedAnswer {
  Answer answer;
  size_t vocabulary = 0;
};

/// What `PendingRequests` and `PendingTexts` share. Methods are called with the GIL, which waits release.
template <typename Handle>
class Pending : public CancellableCall {
 public:
  Pending(std::shared_ptr<CallState> state, std::vector<Handle> handles);
  /// Cancels what is not done.
  ~Pending() override;
  Pending(const Pending&) = delete;
  Pending& operator=(const Pending&) = delete;

  /// Waits until more than `seen` of the requests are done, or all; returns how many are. Cancels all and raises the
  /// exception when a signal handler raises one.
  size_t wait_done(size_t seen);
  size_t size() const { return handles_.size(); }
  bool is_done() const;
  /// Ends what is not done, and waits for it, which takes a step at most. Signals do not interrupt it.
  void cancel();
  void cancel_requests() override;
  void release_objects(std::vector<nb::object>& released) override { state_->release_objects(released); }

 protected:
  /// Waits for `is_met(state)`, which is called under the state's mutex.
  template <typename Condition>
  void wait_until(const Condition& is_met);

  std::shared_ptr<CallState> state_;
  std::vector<Handle> handles_;
};

class PendingRequests : public Pending<RequestHandle> {
 public:
  PendingRequests(std::shared_ptr<CallState> state, std::vector<RequestHandle> handles, size_t vocabulary)
      : Pending(std::move(state), std::move(handles)), vocabulary_(vocabulary) {}

  /// The next streamed token; empty after the last one. Raises the error of a request that has failed.
  std::optional<StreamedToken> next_token();
  /// The next token, if there is one already.
  std::optional<StreamedToken> take_token();
  void set_listener(nb::object function) { state_->set_listener(std::move(function)); }

  /// The answers by request, after all are done. Raises the error of the first request that has failed.
  std::vector<std::vector<FinishedAnswer>> answers();

  /// The answers of request `index`, or none before it is done. Raises its error. Answers can be taken once.
  std::optional<std::vector<FinishedAnswer>> answers_if_done(size_t index);

 private:
  size_t vocabulary_;
};

class PendingTexts : public Pending<ScoreHandle> {
 public:
  using Pending::Pending;

  /// The scores by text. Raises the error of the first text that has failed.
  std::vector<std::vector<TokenScore>> scores();
};

}  // namespace lockstep::python
