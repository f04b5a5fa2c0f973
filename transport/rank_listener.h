// Connections to rank 0, admitted after the handshake.
//
//   accept ─► pending: challenge sent, hello awaited ─┬─ proved ─► ProvenConnection, for its user
//                 at most `most_pending`              └─ refused: closed, counted, logged once a kind and power of ten
//
// No byte of a stranger reaches anything else, and strangers cost at most `most_pending` files of `kHelloBytes` each.
#pragma once

#include <poll.h>

#include <array>
#include <functional>
#include <list>
#include <string>
#include <vector>

#include "runtime/core/clock.h"
#include "runtime/core/descriptor.h"
#include "runtime/core/result.h"
#include "transport/handshake.h"

namespace lockstep::transport {

struct RankListenerOptions {
  std::string secret;  // of the run; every rank has it
  int32_t size = 1;    // ranks of the run
  ConnectionPurpose purpose = ConnectionPurpose::kActors;
  std::function<void(const std::string&)> on_refused = {};  // gets lines for a log, at once
  Duration deadline = std::chrono::seconds(5);              // of a hello
  size_t most_pending = 64;
};

/// A connection whose other end holds the secret.
struct ProvenConnection {
  Descriptor socket;
  int32_t rank = 0;
};

/// Never blocks; used by one thread, which polls.
class RankListener {
 public:
  /// `listening` does not block. On a Unix socket, processes of other users are refused.
  RankListener(Descriptor listening, RankListenerOptions options);
  RankListener(const RankListener&) = delete;
  RankListener& operator=(const RankListener&) = delete;

  /// Adds the files that `take` reads, for poll.
  void add_files(std::vector<pollfd>& files) const;
  /// The time until `take` has to be called again, whatever the files say; at most `longest`.
  Duration patience(TimePoint now, Duration longest) const;

  /// The connections that have proved the secret since the last call.
  std::vector<ProvenConnection> take(TimePoint now);

  /// Those without a whole hello.
  size_t pending() const { return pending_.size(); }
  /// Refused connections so far.
  int64_t refused(RefusalKind kind) const { return refused_[static_cast<size_t>(kind)]; }

 private:
  struct Pending {
    Descriptor socket;
    std::string host;  // without the port
    std::string from;  // "10.1.0.6:41230"
    std::string nonce;
    std::string received;
    TimePoint deadline{};
  };

  void accept_some(TimePoint now);
  void add(Descriptor socket, std::string host, std::string from, TimePoint now);
  void drop_one();
  bool read(Pending& one, TimePoint now, std::vector<ProvenConnection>& proven);
  void welcome(Pending& one, std::vector<ProvenConnection>& proven);
  void refuse(RefusalKind kind, const std::string& from);

  const Descriptor listening_;
  const RankListenerOptions options_;
  std::list<Pending> pending_;  // the oldest first
  std::array<int64_t, kRefusalKinds> refused_{};
  TimePoint accept_again_{};  // later than now: this process has no free files
};

}  // namespace lockstep::transport
