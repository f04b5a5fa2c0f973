// Watches the processes of a job from beside MPI and the data plane: a thread per process and a connection from every
// rank to rank 0. A rank that dies, stands still or fails ends the job on every rank, whatever their main threads do.
//
//   rank 0            PeerWatch::host(options, endpoint)      listens; relays the first end to all
//   every other       PeerWatch::join(options, endpoint)      connects in the background
//   whoever fails     watch->tell(error)                      before it leaves
//   whoever is done   watch->leave(patience)                  from then on its closed connection is no loss
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

/// Where rank 0 listens.
struct Endpoint {
  std::string local;   // the name of an abstract Unix socket, when all ranks are on one host; empty: TCP
  std::string host;    // TCP
  uint16_t port = 0;   // TCP
  uint64_t token = 0;  // what a rank must know to be heard

  friend bool operator==(const Endpoint&, const Endpoint&) = default;
};

/// One line, for a `Bootstrap` to carry.
std::string to_text(const Endpoint& endpoint);
/// Fails with `kFailedPrecondition` on a text that `to_text` did not make.
Result<Endpoint> parse_endpoint(const std::string& text);

struct WatchOptions {
  int rank = 0;
  int size = 1;
  std::string host;                          // of this rank, for messages
  Duration silence{};                        // a peer that gives no sign of life for so long is lost; 0: never
  std::function<std::string()> activity;     // what this rank is doing: "load, at exchange (operation 4)"
  std::function<void(const Error&)> on_end;  // the job has failed elsewhere: called once, on the watch's thread
  Duration beat() const;                     // between two signs of life; 0: none
};

/// Thread-safe. The functions of the options are called until the destructor returns.
class PeerWatch {
 public:
  /// For rank 0. Fails with `kUnavailable` when it cannot listen.
  static Result<std::unique_ptr<PeerWatch>> host(WatchOptions options, Endpoint endpoint);
  /// For every other rank; tries to connect until it is destroyed.
  static std::unique_ptr<PeerWatch> join(WatchOptions options, Endpoint endpoint);

  /// Never waits for peers, except a connection attempt under way (a second).
  ~PeerWatch();
  PeerWatch(const PeerWatch&) = delete;
  PeerWatch& operator=(const PeerWatch&) = delete;

  /// Where it listens; on rank 0.
  const Endpoint& endpoint() const;

  /// Whether, within `patience`, every rank is connected (rank 0) or rank 0 has answered (others).
  /// @blocking
  bool wait_joined(Duration patience);

  /// The ranks that have never been heard; what rank 0 knows (others: rank 0 or none).
  std::vector<int> missing() const;

  /// Tells every rank that this one failed, unless an end is known already. Waits a quarter of a second at most until
  /// they have heard.
  /// @blocking
  void tell(const Error& error);

  /// The end of the job that another rank told or that a loss made, waited for at most `patience`.
  /// @blocking
  std::optional<Error> end(Duration patience);

  /// This rank is done. Rank 0 then waits until every other is, `patience` at most.
  /// @blocking
  void leave(Duration patience);

 private:
  class Impl;
  explicit PeerWatch(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::transport::watch
