// A thread that serves an engine's requests to other processes (engine.capnp).
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/engine.h"
#include "runtime/core/clock.h"

namespace lockstep::rpc {

/// Where the server listens: a Unix socket that only this user may open, or TCP with a secret.
struct RpcAddress {
  std::filesystem::path socket;  // empty: TCP
  std::string host = "127.0.0.1";
  uint16_t port = 0;   // 0: a free one
  std::string secret;  // that clients send; not empty with TCP
  int listening = -1;  // a descriptor that listens there already (listening.h), which the server takes over; -1: none
};

/// Neither copied nor moved. Borrows group, engine and model, which it must not outlive.
class RpcServer {
 public:
  /// On rank 0, which knows of the others what `group` says. Fails with `kUnavailable` when it cannot listen there, and
  /// with `kInvalidArgument` for TCP without a secret. A socket that an ended process has left is replaced.
  /// `constraint_program` is lockstep-constraint; without it this process compiles constraints itself, without limits
  /// of time and memory. Clients are told of `replicas`. Connections that do not send the secret in time are closed;
  /// `on_refused` gets lines for a log about them, on the server's thread.
  static Result<std::unique_ptr<RpcServer>> open(const Group& group, Engine& engine, const Model& model,
                                                 const RpcAddress& address,
                                                 const std::filesystem::path& constraint_program = {},
                                                 std::vector<RpcAddress> replicas = {},
                                                 std::function<void(const std::string&)> on_refused = {});
  /// Ends all connections, which cancels their requests, and removes the socket.
  virtual ~RpcServer() = default;
  RpcServer(const RpcServer&) = delete;
  RpcServer& operator=(const RpcServer&) = delete;

  /// "/run/user/1000/engine.sock", "127.0.0.1:4711".
  virtual std::string address() const = 0;

  /// Returns true when a client has asked for the end within `limit`. @blocking
  virtual bool wait_finish(Duration limit) = 0;
  /// Returns true when within `limit` every client that can be reached has the end of its requests. @blocking
  virtual bool wait_delivered(Duration limit) = 0;

 protected:
  RpcServer() = default;
};

}  // namespace lockstep::rpc
