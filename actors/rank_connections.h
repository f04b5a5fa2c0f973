// Connections between the actors of several processes.
//
//   rank 0        RankAcceptor ─► handshake ─► descriptor ─► CAF's broker
//   other ranks   connect_to_rank_0 ─► handshake ─► descriptor ─► CAF's broker
//
// CAF 0.17 neither authenticates nor can be told whom to trust, so it opens no port and no connection: it gets
// descriptors whose other end has proved the run's secret (transport/handshake.h). Private to this folder.
#pragma once

#include <caf/all.hpp>
#include <caf/io/middleman.hpp>
#include <memory>
#include <string>

#include "actors/protocol.h"
#include "actors/session.h"
#include "transport/rank_acceptor.h"

namespace lockstep::actors {

/// Ends before the actor system; borrows it. Used by one thread.
class RankConnections {
 public:
  explicit RankConnections(caf::actor_system& system);
  ~RankConnections();
  RankConnections(const RankConnections&) = delete;
  RankConnections& operator=(const RankConnections&) = delete;

  /// Lets the other ranks reach `coordinator` at a free port of `options.bind_address`; returns the port. Fails with
  /// `kUnavailable`.
  Result<uint16_t> listen(const SessionOptions& options, const CoordinatorHandle& coordinator);

  /// The coordinator at `address`, for `rank`. Fails as `Session::join`. @blocking
  Result<CoordinatorHandle> connect(const SessionOptions& options, RankId rank, const Address& address);

 private:
  caf::actor_system& system_;
  caf::actor broker_;  // CAF's, of all connections
  std::unique_ptr<transport::RankAcceptor> acceptor_;
};

}  // namespace lockstep::actors
