// `lockstep supervise`: runs a batch job and restarts it until it is done.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>

#include "launcher/batch/supervise.h"
#include "launcher/batch/watched_command.h"
#include "launcher/process/interruption.h"
#include "launcher/process/own_environment.h"
#include "launcher/process/rank_processes.h"
#include "launcher/process/restart_rule.h"
#include "lockstep/engine.h"
#include "runtime/core/atomic_file.h"
#include "runtime/journal/journal.h"

namespace lockstep::launcher {
namespace {

namespace fs = std::filesystem;
using Next = RestartDecision::Next;

constexpr int kInterrupted = 130;

template <typename... Args>
void say(fmt::format_string<Args...> format, Args&&... args) {
  fmt::print(stderr, "supervise: {}\n", fmt::format(format, std::forward<Args>(args)...));
  std::fflush(stderr);
}

/// The folder for the next attempt's records: the command's folder, or a separate one next to the journal.
Result<fs::path> record_folder(const GenerateCommand& generate) {
  if (generate.run.exit_record) return *generate.run.exit_record;
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

/// With one replica less; the only one gets the next lower degree that the partition allows.
Result<WatchedCommand> shrink(const WatchedCommand& command, const ParseGenerate& parse) {
  if (const std::optional<int> ranks = ranks_without_a_replica(command)) return with_ranks(command, *ranks, parse);
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

RestartLimits limits_of(const SuperviseCommand& command) {
  return {.in_all = RestartLimit{command.restarts, "--restarts"},
          .in_a_row = {command.stalled_restarts, "--stalled-restarts"},
          .counted = CountedRestarts::kAfterNoProgress,
          .shrinking = command.shrink ? Shrinking::kLostTwice : Shrinking::kNever,
          .pauses = {.first = duration_of(command.backoff_s)}};
}

class Supervisor {
 public:
  Supervisor(const SuperviseCommand& options, WatchedCommand command, const ParseGenerate& parse)
      : command_(std::move(command)), parse_(parse), rule_(limits_of(options)) {}

  Result<int> run(const process::ChildStop& stop);

 private:
  Result<AttemptEnd> attempt(const process::ChildStop& stop);
  Result<void> prepare_next(const RestartDecision& decision, const process::ChildStop& stop);

  WatchedCommand command_;
  const ParseGenerate& parse_;
  RestartRule rule_;
};

/// Runs one start until its last process has ended.
Result<AttemptEnd> Supervisor::attempt(const process::ChildStop& stop) {
  LOCKSTEP_TRY(const fs::path records, record_folder(command_.generate));
  RanksCommand ranks{.child = {.words = with_exit_record(command_, records),
                               .environment = own_environment(),
                               .errors = process::ChildStream::kPassOn},
                     .role = command_.program == 0 ? WatchedChild::kRankZero : WatchedChild::kLauncher,
                     .ranks = command_.ranks,
                     .records = records};
  say("start {}: {}{}", rule_.restarts() + 1, fmt::join(ranks.child.words, " "),
      command_.ranks ? fmt::format(" ({} ranks)", *command_.ranks) : "");
  LOCKSTEP_TRY(const RanksEnd end, RankProcesses(stop).run(std::move(ranks)));
  return end.attempt;
}

Result<void> Supervisor::prepare_next(const RestartDecision& decision, const process::ChildStop& stop) {
  if (decision.next == Next::kShrink) {
    LOCKSTEP_TRY(command_, shrink(command_, parse_));
    say("{}: going on with {} ranks", decision.why, command_.ranks.value_or(1));
  }
  say("starting again in {:.3g} s", to_seconds(decision.pause));
  stop.wait_for(decision.pause);
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
    say("start {} ended with code {}{}; {} rows before, {} now; {}", rule_.restarts() + 1, end.code, lost, before, done,
        end.message);
    if (stop.is_raised() && end.code != 0) return kInterrupted;
    const bool has_progressed = done > before;
    const RestartDecision decision = rule_.decide({.cause = cause_of(end),
                                                   .lost_ranks = end.lost_ranks,
                                                   .lacks_slots = end.lacks_slots,
                                                   .has_progressed = has_progressed,
                                                   .is_proven = has_progressed});
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
