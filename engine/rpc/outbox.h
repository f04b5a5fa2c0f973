// The tokens of one request on their way from the engine's delivery thread to the server's thread.
#pragma once

#include <kj/async.h>

#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/request.h"

namespace lockstep::rpc {

/// A delivered token; owns what `lockstep::Token` borrows.
struct SentToken {
  size_t answer = 0;
  int32_t id = 0;
  std::string text;
  std::optional<float> logprob;
  std::vector<TokenLogprob> top;
};

/// Everything that one call of the sink can carry.
struct Parcel {
  std::vector<SentToken> tokens;
  std::optional<Result<std::vector<Answer>>> end;  // after the tokens; the last parcel has it
};

/// Thread-safe: `put` and `close` are called by the engine's thread, the others by the server's.
class Outbox {
 public:
  void put(const Token& token);
  void close(Result<std::vector<Answer>> end);

  /// Resolves when there is something to take. One promise at a time; on the thread of the event loop.
  kj::Promise<void> wait();
  Parcel take();

 private:
  void wake();

  std::mutex mutex_;
  Parcel parcel_;
  kj::Own<kj::CrossThreadPromiseFulfiller<void>> waiter_;  // null: no wait is open
};

}  // namespace lockstep::rpc
