#include "launcher/batch/replicated_job.h"

#include <fmt/format.h>

#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "launcher/batch/job_record.h"
#include "launcher/batch/row_work.h"
#include "launcher/process/interruption.h"
#include "launcher/process/launched_rank.h"
#include "launcher/process/own_environment.h"
#include "launcher/process/private_folder.h"
#include "launcher/process/rank_processes.h"
#include "launcher/process/replica_cores.h"
#include "launcher/process/restart_rule.h"
#include "launcher/process/sibling_program.h"
#include "launcher/process/stderr_log.h"
#include "launcher/rows/row_server.h"

namespace lockstep::launcher {
namespace {

namespace fs = std::filesystem;

constexpr int kRestartsInARow = 5;  // of a replica that answers no row

Result<void> check_alone() {
  LOCKSTEP_TRY(const std::optional<LaunchedRank> own, launched_rank());
  if (own) {
    return Error{ErrorKind::kFailedPrecondition,
                 fmt::format("[launcher] cannot start replicas: found rank {} of {}, expected one process; omit "
                             "--replicas, and --tp makes replicas of these ranks",
                             own->rank, own->launcher),
                 own->rank};
  }
  return ok();
}

/// Keeps one replica, on a thread of its own, until the job has no row for it.
class JobReplica {
 public:
  JobReplica(RanksCommand command, size_t number, const SharedRows& rows, const StopEvent& stop, const Log& log)
      : command_(std::move(command)), number_(number), rows_(rows), stop_(stop), log_(log) {}

  /// Fails when it will not be started again. @blocking
  Result<void> run();

 private:
  Result<RanksEnd> start() { return RankProcesses(stop_).run(command_); }

  const RanksCommand command_;
  const size_t number_;
  const SharedRows& rows_;
  const StopEvent& stop_;
  const Log& log_;
  RestartRule rule_{{.in_a_row = {kRestartsInARow, "the job"}, .pauses = {.from = 2}}};
};

Result<void> JobReplica::run() {
  bool is_proven = false;
  while (true) {
    const int64_t before = rows_.tokens(number_);
    LOCKSTEP_TRY(const RanksEnd end, start());
    if (end.was_stopped() || end.attempt.code == 0) return ok();
    const bool has_progressed = rows_.tokens(number_) > before;
    is_proven = is_proven || has_progressed;
    const RestartDecision decision = rule_.decide({.cause = cause_of(end.attempt),
                                                   .lost_ranks = end.attempt.lost_ranks,
                                                   .has_progressed = has_progressed,
                                                   .is_proven = is_proven});
    const Error error{kind_of(end.attempt),
                      fmt::format("[launcher] replica {} has ended: {}", number_, describe(end, "answer its rows"))};
    if (decision.next == RestartDecision::Next::kStop) {
      log_.error("{}; it is not started again: {}", error.message, decision.why);
      return error;
    }
    log_.warning("{}", error.message);
    if (stop_.wait_for(decision.pause) || !rows_.is_open()) return ok();
    log_.warning("starts replica {} again: restart {}", number_, rule_.restarts());
  }
}

class ReplicatedJob {
 public:
  ReplicatedJob(const GenerateCommand& command, const Log& log, ProgressLine& progress)
      : command_(command), log_(log), record_(command, log, progress) {}

  Result<void> run();

 private:
  Result<void> answer_rows(const Model& model);
  std::vector<RanksCommand> replica_commands(const RowServer& server, const fs::path& folder) const;
  RanksCommand replica_command(size_t number, const fs::path& socket, const fs::path& folder) const;
  Result<void> run_replicas(std::vector<RanksCommand> commands, const SharedRows& rows, RowServer& server);

  const GenerateCommand& command_;
  const Log& log_;
  JobRecord record_;
  std::optional<RowWork> work_;
  std::vector<std::vector<int>> cores_;  // of each replica
  StopEvent stop_;
  std::mutex mutex_;              // guards the next
  std::optional<Error> failure_;  // of the replica that was over last, or of the record
};

RanksCommand ReplicatedJob::replica_command(size_t number, const fs::path& socket, const fs::path& folder) const {
  const int ranks = command_.model.ranks.value_or(1);
  const fs::path records = command_.run.exit_record.value_or(folder) / fmt::format("replica-{}", number);
  std::vector<std::string> words{sibling_program("lockstep").string(), "generate"};
  words.insert(words.end(), command_.replica_words.begin(), command_.replica_words.end());
  words.insert(words.end(), {"--launch", command_.run.launch == Launch::kThreads ? "threads" : "processes", "--tp",
                             std::to_string(ranks), "--rows-from", socket.string(), "--replica", std::to_string(number),
                             "--first-rank", std::to_string(static_cast<int>(number) * ranks), "--exit-record",
                             records.string(), "--progress", "never"});
  return {.child = {.words = std::move(words), .environment = own_environment()}, .ranks = ranks, .records = records};
}

std::vector<RanksCommand> ReplicatedJob::replica_commands(const RowServer& server, const fs::path& folder) const {
  std::vector<RanksCommand> commands;
  for (size_t number = 0; number < cores_.size(); ++number) {
    commands.push_back(replica_command(number, server.address().socket, folder));
    commands.back().child.hardware_threads = cores_[number];
  }
  return commands;
}

/// Waits for the end of all replicas. Fails when rows are left.
Result<void> ReplicatedJob::run_replicas(std::vector<RanksCommand> commands, const SharedRows& rows,
                                         RowServer& server) {
  std::vector<std::thread> threads;
  for (size_t number = 0; number < commands.size(); ++number) {
    threads.emplace_back([this, number, &rows, command = std::move(commands[number])]() mutable {
      const Result<void> ended = JobReplica(std::move(command), number, rows, stop_, log_).run();
      const std::lock_guard lock(mutex_);
      if (!ended.has_value()) failure_ = ended.error();
    });
  }
  for (std::thread& thread : threads) thread.join();
  server.wait_gone();
  if (!rows.is_open()) return ok();
  if (failure_) return *failure_;
  return Error{ErrorKind::kCancelled, "[launcher] interrupted; start again to run the job"};
}

Result<void> ReplicatedJob::answer_rows(const Model& model) {
  LOCKSTEP_TRY(const EngineOptions options, work_->options(model, record_.setup().capacity, record_.setup().rows));
  const int64_t slots = options.slots.value_or(1);
  const auto rows = record_.share(slots * command_.replicas, [this](const Error& error) {
    const std::lock_guard lock(mutex_);
    failure_ = error;
    stop_.raise();
  });
  LOCKSTEP_TRY(const PrivateFolder folder, PrivateFolder::make());
  LOCKSTEP_TRY(const auto server,
               RowServer::open(*rows, record_.setup(), rows_at_once(slots), {.socket = folder.path() / "rows.sock"}));
  const Result<void> answered = run_replicas(replica_commands(*server, folder.path()), *rows, *server);
  LOCKSTEP_TRY_VOID(record_.finish(*rows));
  return answered;
}

Result<void> ReplicatedJob::run() {
  const Interruption interruption([this](int) { stop_.raise(); });
  LOCKSTEP_TRY(const Model model, Model::open(command_.model.directory, command_.model.options));
  const int ranks = command_.model.ranks.value_or(1);
  LOCKSTEP_TRY_VOID(check_ranks(model, command_.engine, ranks));
  LOCKSTEP_TRY(cores_, cores_of_replicas({.command = "generate",
                                          .backend = command_.engine.backend,
                                          .takes_devices = command_.takes_devices,
                                          .replicas = command_.replicas,
                                          .ranks = ranks}));
  for (const std::string& warning : model.warnings()) log_.warning("{}", warning);
  LOCKSTEP_TRY(work_, RowWork::open(command_, model));
  LOCKSTEP_TRY_VOID(record_.open(model, *work_));
  if (record_.setup().rows > 0) LOCKSTEP_TRY_VOID(answer_rows(model));
  return record_.report(*work_);
}

}  // namespace

Result<void> run_replicated_job(const GenerateCommand& command, ProgressLine& progress) {
  LOCKSTEP_TRY_VOID(check_alone());
  const Log log(stderr_sink(0));
  return ReplicatedJob(command, log, progress).run();
}

}  // namespace lockstep::launcher
