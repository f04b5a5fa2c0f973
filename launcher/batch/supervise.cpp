// `lockstep supervise`: runs a batch job and restarts it until it is done.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>

#include <algorithm>
#include <cstdio>

#include "launcher/batch/restart_rule.h"
#include "launcher/batch/supervise.h"
#include "launcher/batch/watched_command.h"
#include "launcher/process/attempt.h"
#include "launcher/process/interruption.h"
#include "launcher/process/own_environment.h"
#include "lockstep/engine.h"
#include "runtime/core/atomic_file.h"
#include "runtime/journal/journal.h"

namespace lockstep::launcher {
namespace {

namespace fs = std::filesystem;
using Next = RestartDecision::Next;

constexpr int kInterrupted = 130;
constexpr double kLongestPause_s = 60.0;

template <typename... Args>
void say(fmt::format_string<Args...> format, Args&&... args) {
  fmt::print(stderr, "supervise: {}\n", fmt::format(format, std::forward<Args>(args)...));
  std::fflush(stderr);
}

/// The folder for the next attempt's records: the command's folder, or a separate one next to the journal.
Result<fs::path> record_folder(const GenerateCommand& generate) {
  if (generate.run.exit_record) {
    remove_exit_records(*generate.run.exit_record);
    return *generate.run.exit_record;
  }
  std::error_code failed;
  for (int number = 1;; ++number) {
    const fs::path folder = *generate.journal / "attempts" / fmt::format("{}", number);
    if (fs::exists(folder, failed)) continue;
    fs::create_directories(folder, failed);
    if (!failed) return folder;
    return Error{ErrorKind::kInvalidArgument,
                 fmt::format("[launcher] supervise: cannot make {}: {}; name a journal's folder that can be written",
                             folder.string(), failed.message())};
  }
}

/// The next lower degree that the partition allows.
Result<WatchedCommand> shrink(const WatchedCommand& command, const ParseGenerate& parse) {
  const GenerateCommand& generate = command.generate;
  LOCKSTEP_TRY(const Model model, Model::open(generate.model.directory, generate.model.options));
  for (int ranks = command.ranks.value_or(1) - 1; ranks >= 1; --ranks) {
    if (check_ranks(model, generate.engine, ranks).has_value()) return with_ranks(command, ranks, parse);
  }
  return Error{ErrorKind::kUnsupported,
               "[launcher] supervise: found no lower number of ranks, expected one; repair the "
               "machine, then start again"};
}

/// The number of finished rows; zero if the journal cannot be read.
uint64_t rows_done(const fs::path& journal) {
  const auto progress = journal::read_progress(journal);
  return progress.has_value() ? progress.value().done : 0;
}

/// Waits until the time is over or `stop` is raised.
void pause(double seconds, const process::ChildStop& stop) {
  pollfd ready{.fd = stop.descriptor(), .events = POLLIN, .revents = 0};
  ::poll(&ready, 1, static_cast<int>(seconds * 1000.0));
}

class Supervisor {
 public:
  Supervisor(const SuperviseCommand& options, WatchedCommand command, const ParseGenerate& parse)
      : options_(options),
        command_(std::move(command)),
        parse_(parse),
        limits_{
            .restarts = options.restarts, .stalled_restarts = options.stalled_restarts, .may_shrink = options.shrink} {}

  Result<int> run(const process::ChildStop& stop);

 private:
  Result<AttemptEnd> attempt(const process::ChildStop& stop);
  Result<void> prepare_next(const RestartDecision& decision, const process::ChildStop& stop);
  double pause_seconds() const;

  const SuperviseCommand& options_;
  WatchedCommand command_;
  const ParseGenerate& parse_;
  RestartLimits limits_;
  RestartHistory history_;
};

/// Runs one start until its last process has ended.
Result<AttemptEnd> Supervisor::attempt(const process::ChildStop& stop) {
  LOCKSTEP_TRY(const fs::path records, record_folder(command_.generate));
  const process::ChildCommand child{.words = with_exit_record(command_, records),
                                    .environment = own_environment(),
                                    .errors = process::ChildStream::kPassOn};
  say("start {}: {}{}", history_.restarts + 1, fmt::join(child.words, " "),
      command_.ranks ? fmt::format(" ({} ranks)", *command_.ranks) : "");
  LOCKSTEP_TRY(const process::ChildOutcome outcome, process::run_child(child, {}, &stop));
  return judge_attempt(outcome, read_exit_records(records), command_.ranks);
}

double Supervisor::pause_seconds() const {
  return std::min(kLongestPause_s, options_.backoff_s * static_cast<double>(1 << std::min(history_.stalled, 10)));
}

Result<void> Supervisor::prepare_next(const RestartDecision& decision, const process::ChildStop& stop) {
  if (decision.next == Next::kShrink) {
    LOCKSTEP_TRY(command_, shrink(command_, parse_));
    say("{}: going on with {} ranks", decision.why, command_.ranks.value_or(1));
  }
  const double seconds = pause_seconds();
  say("starting again in {:.3g} s", seconds);
  pause(seconds, stop);
  return ok();
}

Result<int> Supervisor::run(const process::ChildStop& stop) {
  const fs::path& journal = *command_.generate.journal;
  uint64_t done = rows_done(journal);
  while (true) {
    LOCKSTEP_TRY(const AttemptEnd end, attempt(stop));
    const uint64_t before = std::exchange(done, rows_done(journal));
    const std::string lost =
        end.lost_ranks.empty() ? "" : fmt::format(", lost rank {}", fmt::join(end.lost_ranks, ", "));
    say("start {} ended with code {}{}; {} rows before, {} now; {}", history_.restarts + 1, end.code, lost, before,
        done, end.message);
    if (stop.is_raised()) return kInterrupted;
    const RestartDecision decision = decide_restart(end, done - std::min(before, done), limits_, history_);
    if (decision.next == Next::kStop) {
      say("{}{}", end.code == 0 ? "" : "giving up: ", decision.why);
      return end.code;
    }
    if (const auto prepared = prepare_next(decision, stop); !prepared.has_value()) {
      say("giving up: {}", prepared.error().message);
      return end.code;
    }
    if (stop.is_raised()) return kInterrupted;
  }
}

}  // namespace

Result<int> supervise(const SuperviseCommand& options, const ParseGenerate& parse) {
  LOCKSTEP_TRY_VOID(journal::available());
  LOCKSTEP_TRY(WatchedCommand command, parse_watched_command(options.words, parse));
  if (options.shrink) LOCKSTEP_TRY_VOID(with_ranks(command, command.ranks.value_or(1), parse));
  process::ChildStop stop;
  const Interruption interruption([&](int) { stop.raise(); });
  return Supervisor(options, std::move(command), parse).run(stop);
}

}  // namespace lockstep::launcher
