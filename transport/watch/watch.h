// Failure detection beside MPI and the data plane: a thread per process and a connection from every rank to rank 0.
// A rank that dies, freezes or fails ends the job on every rank, independently of their main threads.
//
//   rank 0            PeerWatch::host(options, endpoint)      listens; relays the first end to all
//   every other       PeerWatch::join(options, endpoint)      connects in the background
//   a failing rank    watch->tell(error)                      before it leaves
//   a leaving rank    watch->announce_leave()                 its host is to be taken away: rank 0 may make plans
//   a finished rank   watch->leave(patience)                  afterwards its closed connection is not a loss
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/core/clock.h"
#include "runtime/core/result.h"

namespace lockstep::transport::watch {

/// Rank 0's address.
struct Endpoint {
  std::string local;   // the name of an abstract Unix socket, when all ranks are on one host; empty: TCP
  std::string host;    // of TCP: a numeric address
  uint16_t port = 0;   // of TCP
  std::string secret;  // that a connecting rank has to prove; not in the text

  friend bool operator==(const Endpoint&, const Endpoint&) = default;
};

/// One line without the secret, for a `Bootstrap` to carry.
std::string to_text(const Endpoint& endpoint);
/// Fails with `kFailedPrecondition` on a text that `to_text` did not make.
Result<Endpoint> parse_endpoint(const std::string& text);

/// What rank 0 knows of a rank.
struct Presence {
  std::string host;         // empty before it has joined
  Duration silence{};       // since its last sign of life
  bool is_leaving = false;  // it has announced its leave

  friend bool operator==(const Presence&, const Presence&) = default;
};

struct WatchOptions {
  int rank = 0;
  int size = 1;
  std::string host;                                    // of this rank, for messages
  Duration silence{};                                  // a peer without a heartbeat for this long is lost; 0: never
  std::function<std::string()> activity;               // this rank's activity: "load, at exchange (operation 4)"
  std::function<void(const std::string&)> on_refused;  // gets lines for a log: rank 0 has refused connections
  std::function<void(const Error&)> on_end;  // the job has failed elsewhere: called once, on the watch's thread
  Duration beat() const;                     // between two heartbeats; 0: none
};

/// Thread-safe. The functions of the options are called until the destructor returns.
class PeerWatch {
 public:
  /// For rank 0. Fails with `kUnavailable` when it cannot listen.
  static Result<std::unique_ptr<PeerWatch>> host(WatchOptions options, Endpoint endpoint);
  /// For every other rank; tries to connect until it is destroyed.
  static std::unique_ptr<PeerWatch> join(WatchOptions options, Endpoint endpoint);

  /// Does not wait for peers, except for a running connection attempt (two seconds).
  ~PeerWatch();
  PeerWatch(const PeerWatch&) = delete;
  PeerWatch& operator=(const PeerWatch&) = delete;

  /// Its address; on rank 0.
  const Endpoint& endpoint() const;

  /// Whether, within `patience`, every rank is connected (rank 0) or rank 0 has answered (others).
  /// @blocking
  bool wait_joined(Duration patience);

  /// The ranks without any message so far, on rank 0 (on others: rank 0 or none).
  std::vector<int> missing() const;

  /// Of all ranks, by rank; on rank 0. A rank whose connection has closed has no host.
  std::vector<Presence> presence() const;

  /// Tells rank 0 that this rank will have to end before long. The job goes on.
  void announce_leave();

  /// Reports this rank's failure to every rank, unless the job has already ended. Waits at most a quarter of a second
  /// for their acknowledgement.
  /// @blocking
  void tell(const Error& error);

  /// The end of the job by another rank's report or by a loss; waits at most `patience`.
  /// @blocking
  std::optional<Error> end(Duration patience);

  /// Marks this rank as finished. Rank 0 then waits at most `patience` for all others.
  /// @blocking
  void leave(Duration patience);

 private:
  class Impl;
  explicit PeerWatch(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::transport::watch
