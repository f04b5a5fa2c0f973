// `lockstep doctor`: runs the stages of this process's ranks and combines their results.
#include <fmt/format.h>

#include "engine/group/agreement.h"
#include "engine/group/rank_threads.h"
#include "launcher/measure/doctor/doctor.h"
#include "launcher/measure/doctor/judgements.h"
#include "launcher/measure/doctor/stage_reporter.h"
#include "launcher/measure/doctor/stages.h"
#include "launcher/process/own_environment.h"
#include "launcher/process/own_ranks.h"
#include "runtime/core/atomic_file.h"
#include "runtime/core/guard.h"
#include "transport/mpi/mpi.h"

namespace lockstep::launcher {
namespace {

/// The state shared by the ranks of this process.
struct Examination {
  const DoctorCommand& command;
  const transport::LaunchEnvironment& place;
  StageTable& board;
  StageReporter& desk;
  StageBeacon* beacon = nullptr;  // between processes
  TimePoint mpi_began{};
};

/// One rank in the stages that need a group.
class RankExamination {
 public:
  RankExamination(Examination& all, group::Member& member, DoctorReport report)
      : all_(all), rank_{.command = all.command, .member = member, .report = std::move(report)} {
    rank_.report.world_size = rank_.size();
    rank_.report.launcher = rank_.has_threads() || rank_.size() == 1 ? "" : launcher_words(all.place, rank_.size());
  }

  Result<void> run() {
    finish_mpi_start();
    if (all_.beacon != nullptr) LOCKSTEP_TRY_VOID(open_network_beacon());
    for (int stage = kEarlyStages; stage < std::ssize(stages()); ++stage) {
      const Result<bool> goes_on = run_stage(stage);
      if (goes_on.has_value() && goes_on.value()) continue;
      skip_rest(rank_.report, fmt::format("'{}' failed", rank_.report.checks.back().name));
      return goes_on.has_value() ? Result<void>(ok()) : Result<void>(goes_on.error());
    }
    return ok();
  }

  const DoctorReport& report() const { return rank_.report; }

 private:
  bool has_desk() const { return !rank_.has_threads() || rank_.rank() == 0; }

  void enter(int stage) {
    begin_ = rank_.member.clock().now();
    if (has_desk()) all_.desk.enter(stage);
    if (all_.beacon != nullptr) {
      all_.beacon->announce(stage);
    } else {
      all_.board.note(rank_.rank(), stage);
    }
  }

  void leave(int stage, Check check) {
    check.name = stages()[static_cast<size_t>(stage)].name;
    if (check.status != CheckStatus::kSkipped) check.seconds = to_seconds(rank_.member.clock().now() - begin_);
    rank_.report.checks.push_back(std::move(check));
    if (has_desk()) all_.desk.leave(rank_.report);
  }

  /// Ends the stage of MPI's start, or skips it without MPI.
  void finish_mpi_start() {
    Check check = skipped_check(rank_.has_threads() ? "the ranks are threads of one process" : "one rank needs no MPI");
    const std::string name = rank_.member.bootstrap().name();
    if (name.starts_with("mpi (")) {
      check = {};
      check.found = name.substr(5, name.size() - 6);
    }
    begin_ = all_.mpi_began;
    leave(kMpiStage, std::move(check));
  }

  Result<void> open_network_beacon() {
    all_.board.grow(rank_.size());
    LOCKSTEP_TRY(const auto told, rank_.member.bootstrap().exchange(rank_.rank() == 0 ? all_.beacon->listen() : ""));
    if (rank_.rank() != 0) all_.beacon->add_targets(told.front());
    return ok();
  }

  /// Whether later stages can give useful results. Fails when the ranks cannot communicate any more.
  Result<bool> run_stage(int number) {
    const Stage& stage = stages()[static_cast<size_t>(number)];
    enter(number);
    Check check;
    const Result<void> mine = guarded("doctor", [&]() -> Result<void> {
      LOCKSTEP_TRY(check, stage.run(rank_));
      return ok();
    });
    const Result<void> all = group::all_succeeded(rank_.member.bootstrap(), mine);
    if (!all.has_value()) {
      check = failed_check(all.error());
      if (const auto talks = rank_.member.bootstrap().barrier(); !talks.has_value()) {
        leave(number, std::move(check));
        return talks.error();
      }
    }
    const bool goes_on = check.status != CheckStatus::kFailed || !stage.ends_it;
    leave(number, std::move(check));
    return goes_on;
  }

  Examination& all_;
  DoctorRank rank_;
  TimePoint begin_{};
};

Check launch_check(const DoctorCommand& command, const transport::LaunchEnvironment& place) {
  LaunchFacts facts{.environment = place,
                    .launch = command.run.launch,
                    .tp = command.ranks,
                    .in_slurm_job = own_variable("SLURM_JOB_ID").has_value() && !place.in_slurm_step};
  Check check;
  if (facts.launch == Launch::kThreads) {
    check = judge_launch(facts);
  } else {
    const auto library = transport::mpi::choose_library(transport::mpi::library_choice(own_variable, place));
    const bool needs_mpi = place.launcher != transport::Launcher::kNone && place.size != 1;
    if (library.has_value()) facts.library = library.value().name;
    check = needs_mpi && !library.has_value() ? failed_check(library.error()) : judge_launch(facts);
  }
  check.name = stages()[kLaunchStage].name;
  return check;
}

/// The run options of doctor's ranks: only its own deadlines end a stage.
RunOptions run_options(const DoctorCommand& command) {
  double longest = 1.0;
  for (const Stage& stage : stages()) longest = std::max(longest, stage.deadlines);
  RunOptions run = command.run;
  run.deadline_s = command.stage_deadline_s * longest + 60.0;
  run.start_deadline_s = run.deadline_s;
  return run;
}

/// The exit code of the process.
int code_of(const DoctorCommand& command, const DoctorReport& report) {
  const CheckStatus worst = command.warnings == Warnings::kFail ? CheckStatus::kWarning : CheckStatus::kFailed;
  const CheckStatus verdict = report.verdict();
  const bool fails = verdict == CheckStatus::kFailed || verdict == worst;
  return fails ? exit_code(ErrorKind::kFailedPrecondition) : 0;
}

/// Examines MPI and all that needs a group, for a launch that was accepted. Adds to `report`, which has one check.
Result<void> examine_group(Examination& all, const Clock& clock, DoctorReport& report) {
  const bool has_threads = all.command.run.launch == Launch::kThreads;
  const DoctorReport early = report;
  const auto examine = [&](group::Member& member) -> Result<void> {
    RankExamination own(all, member, early);
    const Result<void> done = own.run();
    if (!has_threads || member.leads()) report = own.report();
    return done;
  };
  all.mpi_began = clock.now();
  all.desk.enter(kMpiStage);
  if (all.beacon != nullptr) all.beacon->announce(kMpiStage);
  const OwnRanks ranks{.run = run_options(all.command),
                       .ranks = all.command.ranks,
                       .read_ahead = {},
                       .detection = group::PeerDetection::kOff,
                       .meeting = group::Meeting::kBare};
  const Result<void> ran = on_own_ranks(
      ranks, [&](Group& group, const Log&) { return group::on_each_rank(group::State::of(group), examine); });
  if (ran.has_value()) return ok();
  if (ran.error().kind == ErrorKind::kCancelled) return ran;
  Check check = failed_check(ran.error());
  const bool is_over = report.checks.size() == stages().size();
  if (is_over && report.verdict() == CheckStatus::kFailed) return ok();  // already reported
  check.name = is_over ? "end" : stages()[report.checks.size()].name;
  report.checks.push_back(std::move(check));
  if (!is_over) skip_rest(report, "the ranks cannot talk to each other");
  return ok();
}

}  // namespace

Result<int> doctor(const DoctorCommand& command) {
  if (command.json) LOCKSTEP_TRY_VOID(check_writable(*command.json, "--json"));
  if (command.run.launch == Launch::kProcesses) {
    return Error{
        ErrorKind::kInvalidArgument,
        "[launcher] doctor --launch: found processes, expected mpi or threads: it examines launchers, and ranks "
        "that lockstep starts itself have none; use --launch threads --tp P for the machine's limits"};
  }
  LOCKSTEP_TRY(const auto place, transport::read_launch_environment(own_variable));
  const SteadyClock clock;
  const bool has_threads = command.run.launch == Launch::kThreads;
  const bool is_alone = place.launcher == transport::Launcher::kNone || place.size == 1;
  const int rank = has_threads ? 0 : place.rank;
  const int size = has_threads ? command.ranks.value_or(1) : place.size.value_or(rank + 1);
  StageTable board(size, clock);
  std::optional<StageBeacon> beacon;
  if (!has_threads && !is_alone) beacon.emplace(board, rank, job_name(place));
  StageReporter desk(command, clock, board, rank, beacon ? Signs::kCarried : Signs::kNone);

  DoctorReport report{.world_size = size};
  report.threads = has_threads;
  report.checks.push_back(launch_check(command, place));
  desk.leave(report);
  if (report.verdict() == CheckStatus::kFailed) {
    skip_rest(report, "the launch is wrong");
  } else {
    Examination all{command, place, board, desk, beacon ? &*beacon : nullptr};
    LOCKSTEP_TRY_VOID(examine_group(all, clock, report));
  }
  LOCKSTEP_TRY_VOID(desk.close(report));
  return code_of(command, report);
}

}  // namespace lockstep::launcher
