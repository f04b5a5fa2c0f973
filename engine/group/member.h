// One local rank of a group during its work, on a separate thread.
#pragma once

#include <functional>
#include <memory>

#include "engine/group/run_phases.h"
#include "engine/group/state.h"
#include "runtime/core/abort_flag.h"
#include "runtime/core/log.h"
#include "transport/bootstrap.h"

namespace lockstep::group {

/// Used by the rank's thread.
class Member {
 public:
  /// Everything is borrowed. The bootstrap is the group's for this work.
  Member(State& group, int rank, std::unique_ptr<transport::Bootstrap> bootstrap, AbortFlag& abort);

  State& group() const { return group_; }
  int rank() const { return rank_; }
  int size() const { return group_.size(); }
  bool leads() const { return rank_ == 0; }
  transport::Bootstrap& bootstrap() const { return *bootstrap_; }
  AbortFlag& abort_flag() const { return abort_; }
  const Clock& clock() const { return group_.clock(); }
  const Log& log() const { return group_.log(rank_); }
  RunPhases& phases() { return phases_; }
  transport::WaitOptions wait_options() const { return group_.wait_options(abort_); }

  /// Shares the outcome of work that each rank did separately: fails on every rank with the error of the first rank
  /// that failed. @collective @blocking
  Result<void> all_succeeded(const Result<void>& mine);
  /// Fails on every rank with `kFailedPrecondition` when a rank's statement, one fact a line, differs from rank 0's;
  /// `what` names the subject. @collective @blocking
  Result<void> agree(std::string_view what, std::string_view statement);
  /// Whether one of the two has failed: then the failure is known on every rank and the group still works.
  bool failed_together() const { return failed_together_; }

  /// Wraps the bootstrap.
  using Wrap = std::function<std::unique_ptr<transport::Bootstrap>(std::unique_ptr<transport::Bootstrap>)>;
  void wrap_bootstrap(const Wrap& wrap) { bootstrap_ = wrap(std::move(bootstrap_)); }

 private:
  State& group_;
  const int rank_;
  std::unique_ptr<transport::Bootstrap> bootstrap_;
  AbortFlag& abort_;
  RunPhases phases_;
  bool failed_together_ = false;
};

}  // namespace lockstep::group
