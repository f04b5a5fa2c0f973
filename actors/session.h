// A session: one run of a model by a group of ranks. CAF is hidden behind this header.
//
//   process of rank 0     auto session = Session::host({.size = 2, .ranks = {{RankId(0), &abort}}})
//                         broadcast session->address() through the Bootstrap
//                         session->submit(request, sink); session->finish();      from any thread
//                         session->run_executor(RankId(0), engine)                the main thread: returns at the end
//   process of rank 1     auto session = Session::join({.size = 2, .ranks = {{RankId(1), &abort}}}, address)
//                         session->run_executor(RankId(1), engine)
//
// Ranks that are threads of one process share one session: call `host` with all of them in `ranks`. No port is opened,
// and each thread calls `run_executor` for its rank. The messages are the same.
//
// A session ends successfully after `finish`, when every request has its answer. Otherwise it ends with one error,
// which names the rank of origin: every rank's `run_executor` returns it, and every abort flag and open request
// receives it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/executor.h"
#include "actors/request.h"
#include "actors/schedule.h"
#include "runtime/core/abort_flag.h"
#include "runtime/core/clock.h"
#include "runtime/core/ids.h"
#include "runtime/core/result.h"
#include "runtime/trace/activity.h"
#include "shards/step_engine.h"

namespace lockstep::actors {

/// Whether actors watch each other, so that a lost process ends the session. Off only in tests.
enum class PeerDetection { kOn, kOff };

/// A rank that this process runs. The flag is borrowed and outlives the session; ranks may share one.
struct LocalRank {
  RankId rank;
  AbortFlag* abort = nullptr;
};

/// Callbacks for events of this process, on the thread of the event; for timelines and tests. Empty functions are not
/// called.
struct SessionTrace {
  std::function<void(RankId, const Schedule&)> schedule;    // a schedule message arrived
  std::function<void(RankId, const ExecutorStatus&)> step;  // a step is about to run
};

struct SessionOptions {
  int32_t size = 1;                   // ranks of the group
  std::vector<LocalRank> ranks = {};  // those of this process
  PeerDetection detection = PeerDetection::kOn;
  Duration hello_deadline = std::chrono::seconds(60);    // until every rank has joined; counts from `host`
  Duration connect_deadline = std::chrono::seconds(30);  // of `join`
  Duration end_deadline = std::chrono::seconds(60);      // of the wait for the other ranks after the last step
  Duration leave_deadline = std::chrono::seconds(1);     // of the wait for their last messages after a failure
  Duration heartbeat = Duration::zero();  // between heartbeats of processes; zero: none. A closed connection is
  Duration silence = Duration::zero();  // detected without them; a frozen peer only after `silence` (≥ 5 heartbeats)
  std::string bind_address = "127.0.0.1";  // where `host` listens when other processes take part
  // Of the run, at least 32 characters when other processes take part: both ends of a connection prove it.
  std::string secret = {};
  std::function<void(const std::string&)> on_refused = {};  // gets lines for a log, on any thread
  IdleWait idle = {};
  int32_t decode_steps = 32;  // of one schedule, at most
  int32_t prefill_steps = 8;  // of one schedule, at most
  int32_t in_flight = 2;      // schedules sent ahead, at least 1
  // The time that a prefill or score step may take between two decode steps, and that the schedules in flight take
  // together; zero: that of four decode steps; none: whole chunks and long schedules, for the most tokens per second.
  std::optional<Duration> chunk_budget = {};
  bool keeps_prefixes = false;  // the next request with the same prefix reuses the caches of a closed slot
  // How long tokens may wait for those of later steps. A delivery to the coordinator's thread takes 50 to 150 µs of
  // rank 0, and all ranks wait for it; zero: after every step.
  Duration hand_on_period = std::chrono::milliseconds(20);
  SessionTrace trace = {};

  /// Fails with `kInvalidArgument` naming the field.
  Result<void> validate() const;
};

/// The coordinator's address; port 0 when all ranks are in its process.
struct Address {
  std::string host;
  uint16_t port = 0;

  friend bool operator==(const Address&, const Address&) = default;
};

/// One process's part in a session. The destructor never waits for peers; to them an unended session is a lost rank.
class Session {
 public:
  /// For the process that runs rank 0: starts the coordinator. Fails with `kUnavailable` when it cannot listen.
  /// Connections without proof of the secret are refused, whatever they send.
  static Result<std::unique_ptr<Session>> host(SessionOptions options);

  /// For every other process. Fails with `kUnavailable` when no process listens there, with `kDeadlineExceeded` when
  /// none answers, and with `kFailedPrecondition` when the process there is no rank 0 with the same secret.
  /// @blocking
  static Result<std::unique_ptr<Session>> join(SessionOptions options, const Address& coordinator);

  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// The coordinator's address, for the other processes.
  const Address& address() const;

  /// Runs the steps of one local rank on the calling thread until the session ends. Call once per local rank; `engine`
  /// is borrowed during the call. Planning starts with rank 0's call, so requests submitted before it start together.
  /// @blocking
  Result<void> run_executor(RankId rank, shards::StepEngine& engine);

  /// The current or last activity of a local rank's executor, for exit records. May be called from any thread.
  ExecutorStatus status(RankId rank) const;

  /// The present state of slots, ranks and at most the last `most_steps` steps, in the process of rank 0. May be called
  /// from any thread.
  trace::Activity activity(size_t most_steps) const;

  /// Ends the whole session with `kCancelled`. May be called in any process, from any thread (not a signal handler).
  void cancel();

  /// Ends the whole session with `error`, under the same rules; for failures of a client.
  void fail(const Error& error);

  // The client's side: only in the process of rank 0, from any thread.

  /// Queues a request. A request that cannot be answered ends through its sink; the others continue.
  void submit(Request request, Sink& sink);
  /// Queues several requests; as many start together as fit the slots.
  void submit(std::vector<Request> requests, Sink& sink);

  /// Ends a request with `kStop`; no token follows. Ignores a request that has ended.
  void stop(RequestId request);

  /// No request will follow: the session ends when the last answer is complete.
  void finish();

 private:
  class Impl;
  explicit Session(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::actors
