#include "launcher/serve/http/connection_exchange.h"

#include <exception>

#include "runtime/core/check.h"

namespace lockstep::serve {

ConnectionExchange::~ConnectionExchange() {
  try {
    fail();
  } catch (const std::exception&) {
    if (connection_) connection_->close();  // no memory for the answer
  }
}

void ConnectionExchange::respond(HttpResponse response) {
  LOCKSTEP_CHECK(progress_ == Progress::kWaiting);
  progress_ = Progress::kAnswered;
  on_disconnect_ = nullptr;  // with it goes what it captured
  if (connection_) connection_->respond(std::move(response));
}

void ConnectionExchange::begin_stream(HttpResponse head) {
  LOCKSTEP_CHECK(progress_ == Progress::kWaiting);
  progress_ = Progress::kStreaming;
  if (connection_) connection_->begin_stream(std::move(head));
}

void ConnectionExchange::write(std::string bytes) {
  LOCKSTEP_CHECK(progress_ == Progress::kStreaming);
  if (connection_) connection_->write(bytes);
}

void ConnectionExchange::end_stream() {
  LOCKSTEP_CHECK(progress_ == Progress::kStreaming);
  progress_ = Progress::kAnswered;
  on_disconnect_ = nullptr;
  if (connection_) connection_->end_stream();
}

void ConnectionExchange::on_sent(size_t bytes, std::function<void()> call) {
  if (!connection_) return;
  waiting_.emplace_back(bytes, std::move(call));
  if (unsent() > bytes) return;
  loop_.post([weak = weak_from_this()] {  // not from within on_sent; not after a disconnect
    const auto self = weak.lock();
    if (self && self->connection_) self->on_progress();
  });
}

void ConnectionExchange::on_disconnect(std::function<void()> call) {
  if (progress_ == Progress::kAnswered) return;
  if (is_gone_) return loop_.post(std::move(call));
  on_disconnect_ = std::move(call);
}

void ConnectionExchange::fail() {
  if (progress_ == Progress::kWaiting) {
    respond(failed_response());
  } else if (progress_ == Progress::kStreaming) {
    progress_ = Progress::kAnswered;
    on_disconnect_ = nullptr;
    if (connection_) connection_->abandon_stream();
  }
}

void ConnectionExchange::on_progress() {
  std::vector<std::function<void()>> due;
  std::erase_if(waiting_, [&](auto& waiting) {
    if (unsent() > waiting.first) return false;
    due.push_back(std::move(waiting.second));
    return true;
  });
  for (const auto& call : due) call();
}

void ConnectionExchange::detach() {
  waiting_.clear();
  connection_.reset();
}

void ConnectionExchange::on_gone() {
  is_gone_ = true;
  detach();
  if (const auto call = std::exchange(on_disconnect_, nullptr)) call();
}

}  // namespace lockstep::serve
