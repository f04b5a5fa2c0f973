// One rank of `generate`, from its place in the group to the last token. Every rank runs the same function; rank 0 also
// prepares the job, submits it and reports.
//
//   spec, partition ─► job (rank 0) ─► agreement 1 ─► communicator ─► weights, compile ─► agreement 2 ─► session
//                                                                                                           │
//                                       report (rank 0) ◄─ memory of all ranks ◄─ executor until the end ◄──┘
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "actors/session.h"
#include "launcher/command_line.h"
#include "launcher/phases.h"
#include "runtime/core/abort_flag.h"
#include "runtime/core/log.h"
#include "transport/bootstrap.h"
#include "transport/loopback/loopback.h"

namespace lockstep::launcher {

/// What a rank is given. Everything is borrowed.
struct RankContext {
  const GenerateCommand& command;
  transport::Bootstrap& bootstrap;
  std::shared_ptr<transport::loopback::Group> threads;  // null between processes
  actors::Session* shared_session = nullptr;            // of ranks that are threads; null between processes
  AbortFlag& abort;
  const Clock& clock;
  const Log& log;
  Phases& phases;
  std::function<void(const Error&)> on_failure;  // called at once when the executor fails, before anything may wait
};

/// The options of a session of `size` ranks, without the ranks of this process.
actors::SessionOptions session_options(const GenerateCommand& command, int size);

/// What the outside may ask of a running rank: for exit records and Ctrl-C. Thread-safe.
class RankMonitor {
 public:
  void watch(actors::Session* session, RankId rank, device::Communicator* communicator);
  /// Call before the session or the communicator is destroyed.
  void forget();

  /// Asks the session to end, if there is one; returns whether there was.
  bool cancel();
  /// What the rank is doing, or was doing when it was forgotten.
  struct Status {
    std::string phase;  // "decode, schedule 3, step 5"
    device::OperationMark operation;
  };
  std::optional<Status> status() const;

 private:
  mutable std::mutex mutex_;
  actors::Session* session_ = nullptr;
  RankId rank_;
  device::Communicator* communicator_ = nullptr;
  std::optional<Status> last_;
};

/// @collective @blocking
Result<void> run_rank(RankContext context, RankMonitor& monitor);

}  // namespace lockstep::launcher
