#include "engine/rpc/outbox.h"

#include <utility>

namespace lockstep::rpc {

void Outbox::put(const Token& token) {
  SentToken sent{.answer = token.answer, .id = token.id, .text = std::string(token.text), .logprob = {}, .top = {}};
  if (token.record != nullptr) {
    const bool is_models = token.record->model_logprob.has_value();
    sent.logprob = is_models ? *token.record->model_logprob : token.record->logprob;
    sent.top = is_models ? token.record->model_top : token.record->top;
  }
  const std::lock_guard lock(mutex_);
  parcel_.tokens.push_back(std::move(sent));
  wake();
}

void Outbox::close(Result<std::vector<Answer>> end) {
  const std::lock_guard lock(mutex_);
  parcel_.end = std::move(end);
  wake();
}

void Outbox::wake() {
  if (waiter_.get() == nullptr) return;
  waiter_->fulfill();
  waiter_ = nullptr;
}

kj::Promise<void> Outbox::wait() {
  const std::lock_guard lock(mutex_);
  if (!parcel_.tokens.empty() || parcel_.end) return kj::READY_NOW;
  auto pair = kj::newPromiseAndCrossThreadFulfiller<void>();
  waiter_ = kj::mv(pair.fulfiller);
  return kj::mv(pair.promise);
}

Parcel Outbox::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(parcel_, {});
}

}  // namespace lockstep::rpc
