// Unexpected messages of a peer: dropped and logged; they do not end an actor. Private to this folder.
#pragma once

#include <fmt/format.h>

#include <caf/all.hpp>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

namespace lockstep::actors {

/// Logs the 1st, 10th, 100th … refusal of one actor.
class RefusedMessages {
 public:
  RefusedMessages(int32_t rank, std::function<void(const std::string&)> log) : rank_(rank), log_(std::move(log)) {}

  void note(const std::string& found) {
    ++count_;
    if (!log_ || count_ != next_) return;
    next_ *= 10;
    log_(
        fmt::format("[actors] rank {}: dropped a message between ranks: found {}, expected those of a run's ranks; the "
                    "run goes on, find the process that sends it{}",
                    rank_, found, count_ == 1 ? "" : fmt::format(" ({} so far)", count_)));
  }

 private:
  int32_t rank_;
  std::function<void(const std::string&)> log_;
  int64_t count_ = 0;
  int64_t next_ = 1;
};

/// By default CAF prints unknown messages, and ends an actor that receives an error or an exit of another actor.
/// `note` is called with what was found.
template <class Self, class Note>
void drop_unexpected(Self self, Note note) {
  self->set_default_handler([note](caf::scheduled_actor*, caf::message_view& found) -> caf::result<caf::message> {
    note(fmt::format("the unknown message {}", caf::to_string(found.content()).substr(0, 80)));
    return caf::sec::unexpected_message;
  });
  self->set_error_handler([note](caf::scheduled_actor*, caf::error&) { note("an error"); });
  self->set_exit_handler([note](caf::scheduled_actor*, caf::exit_msg&) { note("a request to exit"); });
}

}  // namespace lockstep::actors
