// The connections of an engine's clients. Those that have not entered are few and have a deadline, so that strangers
// cannot take the files of the process. Those whose host is gone end after half a minute.
#pragma once

#include <capnp/rpc-twoparty.h>
#include <kj/async-io.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "engine/rpc/engine.capnp.h"

namespace lockstep::rpc {

/// Used by the thread of the event loop, which it must not outlive. Ends all connections with itself.
class ClientConnections final : private kj::TaskSet::ErrorHandler {
 public:
  struct Options {
    /// The first object of a connection; it calls the function when the client has proved that it may use the engine.
    std::function<wire::Entrance::Client(std::function<void()> on_entered)> make_entrance;
    std::function<void(const std::string&)> on_refused = {};  // gets lines for a log
    kj::Duration deadline = 10 * kj::SECONDS;                 // to enter
    int64_t most_entering = 64;
  };

  ClientConnections(kj::ConnectionReceiver& listener, kj::Timer& timer, Options options);

 private:
  struct Client {
    kj::Own<kj::PromiseFulfiller<void>> close;
    bool has_entered = false;
  };

  kj::Promise<void> accept_all();
  void begin(kj::Own<kj::AsyncIoStream> stream);
  void refuse(uint64_t number, const char* found);
  void taskFailed(kj::Exception&&) override {}  // a broken connection

  kj::ConnectionReceiver& listener_;
  kj::Timer& timer_;
  const Options options_;
  uint64_t accepted_ = 0;
  uint64_t refused_ = 0;
  std::map<uint64_t, Client> clients_;  // by number: the oldest first
  kj::TaskSet tasks_;                   // uses the above
};

}  // namespace lockstep::rpc
