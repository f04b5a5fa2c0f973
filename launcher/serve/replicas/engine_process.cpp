#include "launcher/serve/replicas/engine_process.h"

#include <fmt/format.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>  // mkdtemp
#include <cstring>
#include <system_error>

#include "launcher/process/attempt.h"
#include "runtime/process/orphans.h"

namespace lockstep::serve {
namespace {

namespace fs = std::filesystem;

constexpr auto kGrace = std::chrono::seconds(5);  // between the signal and SIGKILL
// SIGTERM may mean nothing to a rank, whose launcher sends it to all processes; launchers act on it.
constexpr int kEndOfRank = SIGINT, kEndOfLauncher = SIGTERM;
constexpr auto kOrphanGrace = std::chrono::seconds(3);  // for ranks that have lost rank 0 to end by themselves
constexpr auto kOrphanLimit = std::chrono::seconds(10);

Result<fs::path> private_folder() {
  std::error_code failed;
  std::string pattern = (fs::temp_directory_path(failed) / "lockstep-XXXXXX").string();
  if (!failed && ::mkdtemp(pattern.data()) != nullptr) return fs::path(pattern);
  return Error{ErrorKind::kUnavailable,
               fmt::format("[serve] cannot make a folder for the engine's socket: found '{}', expected a writable {}; "
                           "set TMPDIR",
                           std::strerror(errno), pattern)};
}

}  // namespace

Result<void> engine_end(const process::ChildOutcome& outcome, const fs::path& records, int ranks) {
  if (outcome.end == process::ChildOutcome::End::kStop || outcome.code == 0) return ok();
  const auto known = ranks > 0 ? std::optional(ranks) : std::nullopt;
  const auto role = known ? launcher::WatchedChild::kRankZero : launcher::WatchedChild::kLauncher;
  const launcher::AttemptEnd end = launcher::judge_attempt(outcome, role, launcher::read_exit_records(records), known);
  Error error{kind_of(end), {}};
  if (!end.lost_ranks.empty()) error.origin_rank = *end.lost_ranks.begin();
  const bool is_recorded = end.message != to_string(outcome);
  error.message = fmt::format("[serve] the engine has ended: found {}, expected it to serve; {}", to_string(outcome),
                              is_recorded ? end.message : "its messages above say why");
  return error;
}

Result<std::unique_ptr<EngineProcess>> EngineProcess::start(EngineStart start, EventLoop& loop,
                                                            std::function<void(const Result<void>&)> on_end) {
  LOCKSTEP_TRY(fs::path folder, private_folder());
  std::unique_ptr<EngineProcess> own(new EngineProcess(std::move(folder)));
  start.words.insert(start.words.end(), {"--socket", own->socket().string()});
  // Ranks on other machines cannot write here.
  if (start.records.empty() && start.ranks > 0) start.records = own->folder_;
  if (!start.records.empty()) start.words.insert(start.words.end(), {"--exit-record", start.records.string()});
  launcher::remove_exit_records(start.records);
  // The address that the engine prints is no part of this program's output.
  process::ChildCommand command{.words = std::move(start.words),
                                .environment = std::move(start.environment),
                                .output = process::ChildStream::kDiscard,
                                .hardware_threads = std::move(start.hardware_threads),
                                .orphan_signal = start.ranks > 0 ? kEndOfRank : kEndOfLauncher};
  process::adopt_orphans();
  // The process gets its signal for orphans when the thread that started it ends.
  own->thread_ = std::thread([&loop, command = std::move(command), records = std::move(start.records),
                              ranks = start.ranks, on_end = std::move(on_end), own = own.get()] {
    const Result<void> result = own->run(command, records, ranks);
    process::end_orphans(kOrphanGrace, kOrphanLimit);
    loop.post([on_end, result] { on_end(result); });
  });
  return own;
}

Result<void> EngineProcess::run(const process::ChildCommand& command, const fs::path& records, int ranks) {
  LOCKSTEP_TRY(const auto child, process::ChildProcess::start(command));
  note_running(child.get());
  const process::ChildOutcome outcome = child->wait({.end_signal = command.orphan_signal, .grace = kGrace}, &stop_);
  note_running(nullptr);
  return engine_end(outcome, records, ranks);
}

void EngineProcess::note_running(process::ChildProcess* child) {
  const std::lock_guard lock(mutex_);
  running_ = child;
  if (is_killed_ && running_ != nullptr) running_->send(SIGKILL);
}

void EngineProcess::kill() {
  const std::lock_guard lock(mutex_);
  is_killed_ = true;
  if (running_ != nullptr) running_->send(SIGKILL);
}

EngineProcess::~EngineProcess() {
  stop_.raise();
  if (thread_.joinable()) thread_.join();
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

}  // namespace lockstep::serve
