// A thread that listens for the other ranks on TCP and hands over proven connections.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "runtime/core/result.h"
#include "runtime/core/stop_event.h"
#include "transport/rank_listener.h"

namespace lockstep::transport {

class RankAcceptor {
 public:
  /// Listens at a free port of the numeric `address`. `on_connection` runs on the thread, until the destructor returns.
  /// Fails as `listen_on_free_port`.
  static Result<std::unique_ptr<RankAcceptor>> open(const std::string& address, RankListenerOptions options,
                                                    std::function<void(ProvenConnection)> on_connection);
  ~RankAcceptor();
  RankAcceptor(const RankAcceptor&) = delete;
  RankAcceptor& operator=(const RankAcceptor&) = delete;

  uint16_t port() const { return port_; }

 private:
  RankAcceptor(Descriptor listening, uint16_t port, RankListenerOptions options,
               std::function<void(ProvenConnection)> on_connection);
  void run();

  const uint16_t port_;
  const std::function<void(ProvenConnection)> on_connection_;
  StopEvent stop_;
  RankListener listener_;  // used by the thread alone
  std::thread thread_;
};

}  // namespace lockstep::transport
