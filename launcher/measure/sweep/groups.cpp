#include "launcher/measure/sweep/groups.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <thread>
#include <utility>

#include "launcher/process/process_barrier.h"

namespace lockstep::launcher {
namespace {

using Children = std::vector<std::unique_ptr<process::ChildProcess>>;

bool has_failed(const process::ChildOutcome& outcome) {
  return !outcome.succeeded() && outcome.end != process::ChildOutcome::End::kStop;
}

/// Waits for several children, one thread each.
class GroupsWait {
 public:
  GroupsWait(const process::ChildLimits& limits, const ProcessBarrier* barrier) : limits_(limits), barrier_(barrier) {}

  GroupsOutcome run(const Children& children, const process::ChildStop& stop);

 private:
  void wait_for(process::ChildProcess& child, size_t group);
  GroupsOutcome deciding_outcome();

  const process::ChildLimits limits_;
  const ProcessBarrier* const barrier_;  // null for one group
  process::ChildStop end_all_;
  StopEvent decided_;  // one has failed, or all have ended
  std::mutex mutex_;   // guards the rest while threads wait
  std::vector<process::ChildOutcome> outcomes_;
  std::optional<size_t> first_failed_, first_gone_;
  size_t ended_ = 0;
};

void GroupsWait::wait_for(process::ChildProcess& child, size_t group) {
  process::ChildOutcome outcome = child.wait(limits_, &end_all_);
  const std::lock_guard lock(mutex_);
  if (has_failed(outcome) && !first_failed_) {
    first_failed_ = group;
    if (barrier_ != nullptr) first_gone_ = barrier_->first_gone();
  }
  outcomes_[group] = std::move(outcome);
  if (++ended_ == outcomes_.size() || first_failed_) decided_.raise();
}

/// Groups end with an error when another is gone: that one is the reason, in whichever order they were reaped. It was
/// gone before any was ended, although it may have been reaped after that.
GroupsOutcome GroupsWait::deciding_outcome() {
  size_t group = first_failed_.value_or(0);
  if (first_gone_ && outcomes_[*first_gone_].code != 0) {
    group = *first_gone_;
    if (outcomes_[group].end == process::ChildOutcome::End::kStop) {
      outcomes_[group].end = process::ChildOutcome::End::kItself;
    }
  }
  return {.outcome = outcomes_[group], .group = group};
}

GroupsOutcome GroupsWait::run(const Children& children, const process::ChildStop& stop) {
  outcomes_.resize(children.size());
  std::vector<std::thread> threads;
  for (size_t group = 0; group < children.size(); ++group) {
    threads.emplace_back([this, group, child = children[group].get()] { wait_for(*child, group); });
  }
  std::array<pollfd, 2> waits{{{.fd = stop.descriptor(), .events = POLLIN, .revents = 0},
                               {.fd = decided_.descriptor(), .events = POLLIN, .revents = 0}}};
  while (::poll(waits.data(), waits.size(), -1) < 0) {  // a signal
  }
  end_all_.raise();
  for (std::thread& thread : threads) thread.join();
  GroupsOutcome deciding = deciding_outcome();
  deciding.outcome.took = std::ranges::max(outcomes_, {}, &process::ChildOutcome::took).took;
  return deciding;
}

}  // namespace

Result<GroupsOutcome> run_groups(size_t groups, const GroupCommand& command, const process::ChildLimits& limits,
                                 const process::ChildStop& stop) {
  std::unique_ptr<ProcessBarrier> barrier;
  if (groups > 1) {
    LOCKSTEP_TRY(barrier, ProcessBarrier::create(groups));
  }
  Children children;
  for (size_t group = 0; group < groups; ++group) {
    const auto end = barrier ? std::optional(barrier->end_of(group)) : std::nullopt;
    process::ChildCommand own = command(group, end);
    if (end) own.kept.push_back(*end);
    LOCKSTEP_TRY(auto child, process::ChildProcess::start(own));
    children.push_back(std::move(child));
  }
  if (barrier) barrier->start();
  return GroupsWait(limits, barrier.get()).run(children, stop);
}

}  // namespace lockstep::launcher
