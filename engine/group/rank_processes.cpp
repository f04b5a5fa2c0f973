#include "engine/group/rank_processes.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "runtime/device/rank_place.h"

namespace lockstep::group {
namespace {

constexpr auto kOwnEnd = std::chrono::seconds(1);        // for processes that end by themselves, with their own reason
constexpr auto kGrace = std::chrono::milliseconds(500);  // between SIGTERM and SIGKILL

Error lost(int rank, const process::ChildOutcome& outcome) {
  return {ErrorKind::kPeerLost,
          fmt::format("[engine/group] rank {} is lost: found its process ended with {}, expected it to run until the "
                      "group is left; see its messages",
                      rank, to_string(outcome)),
          rank};
}

}  // namespace

RankProcesses::RankProcesses(std::vector<std::string> command, process::EnvironmentMap environment,
                             transport::LaunchEnvironment launch, transport::local::MeetingFile file)
    : command_(std::move(command)),
      environment_(std::move(environment)),
      launch_(std::move(launch)),
      file_(std::move(file)) {
  for (int rank = launch_.rank + 1; rank < launch_.size.value_or(1); ++rank) {
    states_.push_back({.rank = rank, .started = {}, .has_ended = false});
  }
}

RankProcesses::~RankProcesses() {
  expect_end();
  wake();
  static_cast<void>(wait(kOwnEnd));
  stop_.raise();
  for (std::thread& thread : threads_) thread.join();
}

Result<void> RankProcesses::start(std::function<void(const Error&)> on_lost) {
  on_lost_ = std::move(on_lost);
  // The kernel signals a child when the thread that started it ends, so each is started where it is waited for.
  for (State& state : states_) threads_.emplace_back([this, &state] { run(state); });
  std::unique_lock lock(mutex_);
  changed_.wait(lock,
                [this] { return std::ranges::all_of(states_, [](const State& s) { return s.started.has_value(); }); });
  file_.reset();
  for (const State& state : states_) LOCKSTEP_TRY_VOID(*state.started);
  return ok();
}

void RankProcesses::run(State& state) {
  transport::LaunchEnvironment own = launch_;
  own.rank = state.rank;
  process::ChildCommand command{.words = command_, .environment = environment_};
  command.orphan_signal = SIGCONT;  // lets a frozen rank notice the closed connection; the others do already
  for (auto& [name, value] : transport::launch_variables(own)) command.environment[name] = value;
  command.kept = {file_->descriptor()};
  auto started = process::ChildProcess::start(command);
  const bool runs = started.has_value();
  {
    const std::lock_guard lock(mutex_);
    state.started = runs ? ok() : Result<void>(started.error());
    state.has_ended = !runs;
    state.process = runs ? started.value().get() : nullptr;
    changed_.notify_all();
  }
  if (!runs) return;
  const process::ChildOutcome outcome = started.value()->wait({.grace = kGrace}, &stop_);
  std::unique_lock lock(mutex_);
  state.process = nullptr;
  state.has_ended = true;
  changed_.notify_all();
  if (is_end_expected_) return;
  lock.unlock();
  on_lost_(lost(state.rank, outcome));
}

void RankProcesses::expect_end() {
  const std::lock_guard lock(mutex_);
  is_end_expected_ = true;
}

/// Frozen ones cannot see that the job ends.
void RankProcesses::wake() {
  const std::lock_guard lock(mutex_);
  for (const State& state : states_) {
    if (state.process != nullptr) state.process->send(SIGCONT);
  }
}

std::vector<int> RankProcesses::left() const {
  std::vector<int> ranks;
  for (const State& state : states_) {
    if (!state.has_ended) ranks.push_back(state.rank);
  }
  return ranks;
}

Result<void> RankProcesses::wait(Duration deadline) {
  std::unique_lock lock(mutex_);
  if (changed_.wait_for(lock, deadline, [this] { return left().empty(); })) return ok();
  return Error{ErrorKind::kDeadlineExceeded,
               fmt::format("[engine/group] cannot leave the group: found the processes of {} running {:.3g} s after "
                           "the last exchange, expected their end; they are killed",
                           device::rank_list(left()), to_seconds(deadline))};
}

}  // namespace lockstep::group
