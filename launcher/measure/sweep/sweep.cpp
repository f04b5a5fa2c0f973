// `lockstep sweep`: plans the grid, runs missing points, writes the report.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>
#include <span>

#include "launcher/measure/sweep/launch_trial.h"
#include "launcher/measure/sweep/page.h"
#include "launcher/measure/sweep/results_files.h"
#include "launcher/measure/sweep/runner.h"
#include "launcher/measure/sweep/slurm_array.h"
#include "launcher/measure/sweep/starting_place.h"
#include "launcher/measure/sweep/sweep.h"
#include "launcher/measure/sweep/verdicts.h"
#include "launcher/process/interruption.h"
#include "launcher/process/own_environment.h"
#include "launcher/process/sibling_program.h"
#include "lockstep/model.h"
#include "runtime/core/atomic_file.h"
#include "runtime/core/hash.h"
#include "shards/partition/partition.h"

namespace lockstep::launcher {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMostRanks = 4096, kMostReplicas = 1024, kMostBatch = 65536,
                  kMostPrompt = int64_t{1} << 24;  // as bench's own

void say(const std::string& line) { fmt::print(stderr, "[sweep] {}\n", line); }

fs::path whole_path(const fs::path& path) {
  std::error_code failed;
  fs::path whole = fs::weakly_canonical(fs::absolute(path), failed);  // only the existing part of a relative path
  return failed ? fs::absolute(path) : whole;
}

fs::path config_of(const BenchCommand& bench) {
  return bench.random_weights ? bench.config : bench.model.directory / "config.json";
}

Result<ModelIdentity> identity_of(const BenchCommand& bench) {
  LOCKSTEP_TRY(const std::string config,
               read_text_file(config_of(bench), bench.random_weights ? "--config" : "--model"));
  const std::string hash = fmt::format("{:016x}", Fingerprint().add(config).value());
  return ModelIdentity{.path = whole_path(bench.random_weights ? bench.config : bench.model.directory).string(),
                       .random_weights = bench.random_weights,
                       .config_hash = hash};
}

Result<void> make_folder(const fs::path& folder) {
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (!failed && ::access(folder.c_str(), W_OK) == 0) return ok();
  return Error{
      ErrorKind::kInvalidArgument,
      fmt::format("[launcher/sweep] --out: found {}, expected a folder that can be made and written", folder.string())};
}

Result<std::vector<PointShape>> grid_of(const SweepCommand& command) {
  GridAxes axes{
      .tp = {}, .batch = {}, .prompt_tokens = {}, .new_tokens = command.bench.shape.new_tokens, .replicas = {}};
  LOCKSTEP_TRY(axes.tp, parse_counts(command.tp, "--tp", 1, kMostRanks));
  LOCKSTEP_TRY(axes.replicas, parse_counts(command.replicas, "--replicas", 1, kMostReplicas));
  LOCKSTEP_TRY(axes.batch, parse_counts(command.batch_sizes, "--batch-size", 1, kMostBatch));
  LOCKSTEP_TRY(axes.prompt_tokens, parse_counts(command.prompt_tokens, "--prompt-tokens", 1, kMostPrompt));
  return make_grid(axes);
}

/// The plan of a sweep, complete before its first point.
struct SweepPlan {
  ModelIdentity model;
  SweepRun run;
  std::vector<PlannedPoint> points;
};

/// The errors of degrees into which the model cannot be divided.
Result<std::map<int, Error>> impossible_degrees(const BenchCommand& bench, const std::vector<PointShape>& grid) {
  LOCKSTEP_TRY(const Model model, Model::from_config(config_of(bench), bench.model.options));
  std::map<int, Error> impossible;
  for (const PointShape& shape : grid) {
    const auto partition = partition::make_partition(model.spec(), shape.tp, bench.engine.partition.experts,
                                                     bench.engine.partition.numerics);
    if (!partition.has_value()) impossible.emplace(shape.tp, partition.error());
  }
  return impossible;
}

PlannedPoint plan_point(const PointShape& shape, const SweepVariant& variant, const std::map<int, Error>& impossible,
                        std::span<const std::vector<int>> cores) {
  PlannedPoint point{.shape = shape, .key = key_of(shape, variant), .impossible = std::nullopt, .shares = {}};
  Result<std::vector<GroupShare>> shares = share_out(shape, cores);
  if (const auto found = impossible.find(shape.tp); found != impossible.end()) {
    point.impossible = found->second;
  } else if (shares.has_value()) {
    point.shares = std::move(shares).value();
  } else {
    point.impossible = shares.error();
  }
  return point;
}

Result<SweepPlan> make_plan(const SweepCommand& command) {
  SweepPlan plan;
  LOCKSTEP_TRY(const std::vector<PointShape> grid, grid_of(command));
  LOCKSTEP_TRY(plan.model, identity_of(command.bench));
  LOCKSTEP_TRY(const auto impossible, impossible_degrees(command.bench, grid));
  const int most_ranks = std::ranges::max(grid, {}, &PointShape::tp).tp;
  SweepRun& run = plan.run;
  const int most_replicas = std::ranges::max(grid, {}, &PointShape::replicas).replicas;
  const bool is_default = command.launch_template.empty() && most_replicas > 1;
  const std::string launch = is_default ? "processes" : command.launch_template;
  LOCKSTEP_TRY(run.launch, parse_launch_template(launch, most_ranks));
  LOCKSTEP_TRY_VOID(check_launch_of_replicas(run.launch, most_replicas));
  run.folder = whole_path(command.out);
  run.bench.program = sibling_program("lockstep").string();
  run.bench.model = {command.bench.random_weights ? "--config" : "--model", plan.model.path};
  if (command.bench.random_weights) run.bench.model.insert(run.bench.model.begin(), "--random-weights");
  run.bench.options = command.shared_options;
  run.variant = {.version = LOCKSTEP_VERSION, .launch = launch, .options = command.shared_options};
  run.machine = this_machine();
  run.environment = scrubbed(own_environment(), run.launch);
  if (command.point_deadline_s) {
    run.point_deadline = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(*command.point_deadline_s));
  }
  const std::vector<std::vector<int>> cores = own_cores();
  for (const PointShape& shape : grid) plan.points.push_back(plan_point(shape, run.variant, impossible, cores));
  return plan;
}

/// The report's files and the table on stdout.
Result<void> write_report(const fs::path& folder, const JournalFolder& journals) {
  LOCKSTEP_TRY(const Study study, make_study(journals));
  const std::vector<std::string> verdicts = verdicts_of(study);
  LOCKSTEP_TRY_VOID(write_text_file(folder / "results.csv", to_csv(study)));
  LOCKSTEP_TRY_VOID(write_text_file(folder / "results.json", to_json(study, verdicts)));
  LOCKSTEP_TRY_VOID(write_text_file(folder / "report.html", to_page(study, verdicts)));
  fmt::print("{}", to_table(study, verdicts));
  std::fflush(stdout);
  say(fmt::format("report: {}", (folder / "report.html").string()));
  return ok();
}

ErrorKind kind_of(int code) {
  constexpr std::pair<int, ErrorKind> kKinds[] = {
      {1, ErrorKind::kInternal}, {2, ErrorKind::kInvalidArgument},  {3, ErrorKind::kUnsupported},
      {5, ErrorKind::kPeerLost}, {6, ErrorKind::kDeadlineExceeded}, {7, ErrorKind::kResourceExhausted}};
  for (const auto& [number, kind] : kKinds) {
    if (number == code) return kind;
  }
  return ErrorKind::kFailedPrecondition;  // 4, for any launcher
}

/// Ok only if every point of the grid worked; otherwise the first one that did not decides the exit code.
Result<void> judge(const std::vector<PlannedPoint>& points, const JournalFolder& journals, const fs::path& folder) {
  std::map<std::string, const PointRecord*> by_key;
  for (const PointRecord& record : journals.points) by_key.emplace(record.key, &record);
  const PointRecord* first = nullptr;
  size_t failed = 0;
  for (const PlannedPoint& point : points) {
    const auto found = by_key.find(point.key);
    if (found == by_key.end() || found->second->status == PointStatus::kOk) continue;
    if (first == nullptr) first = found->second;
    ++failed;
  }
  if (first == nullptr) return ok();
  return Error{kind_of(first->code),
               fmt::format("[launcher/sweep] {} of {} points did not work; the first: {}: {}{}{}", failed,
                           points.size(), to_string(first->shape), first->message, output_in_words(*first, folder),
                           first->status == PointStatus::kImpossible ? "" : "\nrun them again with --retry-failed")};
}

/// Points of the plan without a result in the journals.
std::vector<PlannedPoint> points_to_run(const SweepPlan& plan, const SweepCommand& command,
                                        const JournalFolder& journals) {
  std::set<std::string> done;
  for (const PointRecord& record : journals.points) {
    const bool again = record.status != PointStatus::kOk && command.failed_points == FailedPoints::kRetry;
    if (!again) done.insert(record.key);
  }
  std::vector<PlannedPoint> points;
  for (size_t i = 0; i < plan.points.size(); ++i) {
    if (command.only_point && static_cast<size_t>(*command.only_point) != i) continue;
    if (!done.contains(plan.points[i].key)) points.push_back(plan.points[i]);
  }
  return points;
}

/// Called before anything is written: fails if the launcher refuses the largest point.
Result<void> check_launch(const SweepPlan& plan, const SweepCommand& command, const process::ChildStop& stop) {
  LOCKSTEP_TRY(const JournalFolder journals, read_journals(plan.run.folder));
  int ranks = 1;
  for (const PlannedPoint& point : points_to_run(plan, command, journals)) {
    if (!point.impossible) ranks = std::max(ranks, point.shape.tp);
  }
  return try_launch(plan.run.launch, ranks, plan.run.machine, plan.run.environment, stop);
}

Result<void> check_only_point(const SweepCommand& command, const SweepPlan& plan) {
  if (!command.only_point || static_cast<size_t>(*command.only_point) < plan.points.size()) return ok();
  return Error{ErrorKind::kInvalidArgument,
               fmt::format("[launcher/sweep] --only-point: found {}, expected 0 to {}; the grid has {} points",
                           *command.only_point, plan.points.size() - 1, plan.points.size())};
}

Result<void> run_sweep(const SweepCommand& command) {
  process::ChildStop stop;
  const Interruption interruption([&](int) { stop.raise(); });  // before other threads start
  LOCKSTEP_TRY(const SweepPlan plan, make_plan(command));
  LOCKSTEP_TRY_VOID(check_only_point(command, plan));
  LOCKSTEP_TRY_VOID(check_launch(plan, command, stop));
  LOCKSTEP_TRY_VOID(make_folder(plan.run.folder));
  const std::string name = command.only_point ? fmt::format("journal-{}.jsonl", *command.only_point) : "journal.jsonl";
  LOCKSTEP_TRY(const auto journal, Journal::open(plan.run.folder / name, plan.model));
  LOCKSTEP_TRY(const JournalFolder before, read_journals(plan.run.folder));
  LOCKSTEP_TRY_VOID(check_same_model(*before.model, plan.model, plan.run.folder));
  const std::vector<PlannedPoint> points = points_to_run(plan, command, before);
  const size_t wanted = command.only_point ? 1 : plan.points.size();
  if (points.size() < wanted) {
    say(fmt::format("{} of {} points are in the journal already", wanted - points.size(), wanted));
  }
  LOCKSTEP_TRY_VOID(run_points(points, plan.run, *journal, stop, say));
  LOCKSTEP_TRY(const JournalFolder after, read_journals(plan.run.folder));
  if (command.only_point) {
    return judge({plan.points[static_cast<size_t>(*command.only_point)]}, after,
                 plan.run.folder);  // the report gathers all tasks
  }
  LOCKSTEP_TRY_VOID(write_report(plan.run.folder, after));
  return judge(plan.points, after, plan.run.folder);
}

/// The command line of a task: the sweep's, with a launch that fits Slurm.
std::vector<std::string> task_words(const SweepCommand& command, const SweepPlan& plan) {
  std::vector<std::string> words;
  for (const std::string& word : command.words) {
    if (word != "--slurm-array") words.push_back(word);
  }
  const bool is_default = command.launch_template.empty() && plan.run.launch.own.empty();
  if (is_default) words.insert(words.end(), {"--launch-template", kSlurmLaunch});
  return words;
}

Result<void> write_slurm_array(const SweepCommand& command) {
  LOCKSTEP_TRY(const SweepPlan plan, make_plan(command));
  LOCKSTEP_TRY_VOID(make_folder(plan.run.folder));
  SlurmArray array{.program = plan.run.bench.program,
                   .sweep_words = task_words(command, plan),
                   .working_folder = fs::current_path(),
                   .folder = plan.run.folder,
                   .points = {},
                   .threads = command.bench.engine.threads};
  for (const PlannedPoint& point : plan.points) array.points.push_back(point.shape);
  const fs::path script = plan.run.folder / "array.sbatch";
  LOCKSTEP_TRY_VOID(write_text_file(plan.run.folder / "points.txt", points_text(array)));
  LOCKSTEP_TRY_VOID(write_text_file(script, batch_script(array)));
  fmt::print("{} points\nsubmit: sbatch {}\ngather: {}\n", array.points.size(), quoted({script.string()}),
             quoted({array.program, "sweep", "--out", plan.run.folder.string(), "--report"}));
  return ok();
}

Result<void> report(const SweepCommand& command) {
  LOCKSTEP_TRY(const JournalFolder journals, read_journals(command.out));
  if (journals.points.empty()) {
    return Error{ErrorKind::kNotFound,
                 fmt::format("[launcher/sweep] --out: found no points in {}, expected the journal of a sweep; run one "
                             "first",
                             command.out.string())};
  }
  return write_report(whole_path(command.out), journals);
}

}  // namespace

Result<void> sweep(const SweepCommand& command) {
  LOCKSTEP_TRY_VOID(check_not_launched("sweep"));
  switch (command.mode) {
    case SweepMode::kRun: return run_sweep(command);
    case SweepMode::kReport: return report(command);
    case SweepMode::kSlurmArray: return write_slurm_array(command);
  }
  return ok();
}

}  // namespace lockstep::launcher
