#include "engine/python/pending.h"

#include <chrono>
#include <utility>

#include "engine/python/errors.h"

namespace lockstep::python {
namespace {

constexpr auto kSignalPeriod = std::chrono::milliseconds(50);

[[noreturn]] void raise_again(nb::handle exception) {
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.ptr())), exception.ptr());
  throw nb::python_error();
}

}  // namespace

template <typename Handle>
Pending<Handle>::Pending(std::shared_ptr<CallState> state, std::vector<Handle> handles)
    : state_(std::move(state)), handles_(std::move(handles)) {
  for (Handle& handle : handles_) handle.on_done([held = state_] { held->add_done(); });
  state_->model().add(*this);
}

template <typename Handle>
Pending<Handle>::~Pending() {
  state_->model().remove(*this);
  cancel();
  if (!state_->model().is_inside_callback()) state_->clear();
}

template <typename Handle>
bool Pending<Handle>::is_done() const {
  std::lock_guard lock(state_->mutex);
  return state_->done == handles_.size();
}

template <typename Handle>
void Pending<Handle>::cancel_requests() {
  for (Handle& handle : handles_) handle.cancel();
}

template <typename Handle>
void Pending<Handle>::cancel() {
  if (state_->model().is_disowned) return;
  without_gil([this] {
    cancel_requests();
    if (state_->model().is_inside_callback()) return;  // the requests end when it has returned
    std::unique_lock lock(state_->mutex);
    state_->changed.wait(lock, [this] { return state_->done == handles_.size(); });
  });
}

template <typename Handle>
template <typename Condition>
void Pending<Handle>::wait_until(const Condition& is_met) {
  if (state_->model().is_inside_callback()) raise(inside_callback("wait for"));
  const auto waited = [&] {
    const nb::gil_scoped_release released;
    std::unique_lock lock(state_->mutex);
    return state_->changed.wait_for(lock, kSignalPeriod, is_met);
  };
  while (!waited()) {
    if (PyErr_CheckSignals() == 0) continue;
    nb::python_error interrupt;
    cancel();
    throw interrupt;
  }
}

template <typename Handle>
size_t Pending<Handle>::wait_done(size_t seen) {
  wait_until([&] { return state_->done > seen || state_->done == handles_.size(); });
  std::lock_guard lock(state_->mutex);
  return state_->done;
}

template class Pending<RequestHandle>;
template class Pending<ScoreHandle>;

std::optional<StreamedToken> PendingRequests::next_token() {
  wait_until([this] { return !state_->tokens.empty() || state_->done == handles_.size(); });
  return take_token();
}

std::optional<StreamedToken> PendingRequests::take_token() {
  std::lock_guard lock(state_->mutex);
  if (state_->tokens.empty()) return std::nullopt;
  StreamedToken token = std::move(state_->tokens.front());
  state_->tokens.pop_front();
  return token;
}

std::vector<std::vector<FinishedAnswer>> PendingRequests::answers() {
  wait_done(handles_.size());
  const nb::object failure = state_->clear();
  if (failure.is_valid()) raise_again(failure);
  std::vector<std::vector<FinishedAnswer>> found;
  for (RequestHandle& handle : handles_) {
    std::vector<FinishedAnswer>& of_one = found.emplace_back();
    for (Answer& answer : value_of(handle.wait())) of_one.push_back({std::move(answer), vocabulary_});
  }
  return found;
}

std::optional<std::vector<FinishedAnswer>> PendingRequests::answers_if_done(size_t index) {
  RequestHandle& handle = handles_.at(index);
  if (!handle.is_done()) return std::nullopt;
  std::vector<FinishedAnswer> found;
  for (Answer& answer : value_of(handle.wait())) found.push_back({std::move(answer), vocabulary_});
  return found;
}

std::vector<std::vector<TokenScore>> PendingTexts::scores() {
  wait_done(handles_.size());
  std::vector<std::vector<TokenScore>> found;
  for (ScoreHandle& handle : handles_) found.push_back(value_of(handle.wait()));
  return found;
}

}  // namespace lockstep::python
