#include "launcher/process/rank_processes.h"

#include <fmt/format.h>

#include <csignal>

#include "runtime/process/orphans.h"

namespace lockstep::launcher {
namespace {

constexpr auto kGrace = std::chrono::seconds(5);  // between the signal and SIGKILL
// SIGTERM may mean nothing to a rank, whose launcher sends it to all processes; launchers act on it.
constexpr int kEndOfRank = SIGINT, kEndOfLauncher = SIGTERM;
constexpr auto kOrphanGrace = std::chrono::seconds(3);  // for ranks that have lost rank 0 to end by themselves
constexpr auto kOrphanLimit = std::chrono::seconds(10);

}  // namespace

std::string describe(const RanksEnd& end, std::string_view expected) {
  const bool is_recorded = end.attempt.message != to_string(end.outcome);
  return fmt::format("found {}, expected it to {}; {}", to_string(end.outcome), expected,
                     is_recorded ? end.attempt.message : "its messages above say why");
}

Result<RanksEnd> RankProcesses::run(RanksCommand command) {
  if (!command.records.empty()) {
    std::error_code failed;  // the ranks say so
    std::filesystem::create_directories(command.records, failed);
    if (!command.shares_records) remove_exit_records(command.records);
  }
  const int end_signal = command.role == WatchedChild::kRankZero ? kEndOfRank : kEndOfLauncher;
  command.child.orphan_signal = end_signal;
  process::adopt_orphans();
  LOCKSTEP_TRY(const auto child, process::ChildProcess::start(command.child));
  note_running(child.get());
  const process::ChildOutcome outcome = child->wait({.end_signal = end_signal, .grace = kGrace}, &stop_);
  note_running(nullptr);
  process::end_orphans(kOrphanGrace, kOrphanLimit);
  return RanksEnd{outcome, judge_attempt(outcome, command.role, read_exit_records(command.records), command.ranks)};
}

void RankProcesses::note_running(process::ChildProcess* child) {
  const std::lock_guard lock(mutex_);
  running_ = child;
  if (is_killed_ && running_ != nullptr) running_->send(SIGKILL);
}

void RankProcesses::kill() {
  const std::lock_guard lock(mutex_);
  is_killed_ = true;
  if (running_ != nullptr) running_->send(SIGKILL);
}

}  // namespace lockstep::launcher
