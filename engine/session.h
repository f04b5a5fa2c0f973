// The session of this process's ranks.
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "actors/session.h"
#include "engine/group/member.h"
#include "lockstep/options.h"
#include "shards/step_engine.h"

namespace lockstep {

/// What a session's schedules depend on, besides requests.
struct Scheduling {
  PrefixReuse reuse = PrefixReuse::kOff;
  std::optional<double> chunk_budget_ms = {};  // as in EngineOptions
};

/// A rank of an open session. From its creation until its run ends the rank counts as running: threads of signals and
/// reports reach it through the group's hooks.
class SessionRank {
 public:
  SessionRank(group::Member& member, actors::Session& session);
  ~SessionRank() { leave(); }
  SessionRank(const SessionRank&) = delete;
  SessionRank& operator=(const SessionRank&) = delete;

  /// Runs the rank's steps on the calling thread, bound to `hardware_threads`, until the session ends.
  /// @collective @blocking
  Result<void> run(std::span<const int> hardware_threads, shards::StepEngine& engine);

 private:
  void leave();

  group::Member& member_;
  actors::Session& session_;
};

/// Shared by the threads of this process's ranks; each calls the same methods in the same order.
class ProcessSession {
 public:
  ProcessSession() = default;
  ProcessSession(const ProcessSession&) = delete;
  ProcessSession& operator=(const ProcessSession&) = delete;

  /// Opens a session in place of the previous one, which no rank uses any more. @collective @blocking
  Result<std::unique_ptr<SessionRank>> open(group::Member& member, const Scheduling& scheduling = {});

  /// The open session. Requests are submitted to it in rank 0's process.
  actors::Session& session() const { return *session_; }

 private:
  Result<void> open_for_threads(group::Member& member, const Scheduling& scheduling);
  Result<void> open_between_processes(group::Member& member, const Scheduling& scheduling);

  std::unique_ptr<actors::Session> session_;
};

}  // namespace lockstep
