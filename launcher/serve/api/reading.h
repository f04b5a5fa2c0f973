// A request's body on its way through a computing thread.
#pragma once

#include <atomic>
#include <optional>
#include <string>
#include <utility>

#include "launcher/serve/api/protocol.h"

namespace lockstep::serve {

/// `read` runs once, on a computing thread; everything else belongs to the loop's thread. The outcome is there once
/// `read` has returned.
class Reading {
 public:
  Reading(std::string body, ReadContext context) : body_(std::move(body)), context_(std::move(context)) {}

  /// Reads the body in `protocol`. Without effect when the client has left before.
  void read(const Protocol& protocol);

  /// The client has left.
  void abandon() { is_abandoned_ = true; }
  bool is_abandoned() const { return is_abandoned_; }

  /// None: it was not read, or reading threw.
  std::optional<ApiResult<Protocol::Outcome>>& outcome() { return outcome_; }

 private:
  const std::string body_;
  const ReadContext context_;
  std::optional<ApiResult<Protocol::Outcome>> outcome_;
  std::atomic<bool> is_abandoned_ = false;  // set on the loop's thread, seen by `read`
};

}  // namespace lockstep::serve
