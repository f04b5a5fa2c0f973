#include "launcher/measure/bench/suite/suite.h"
#include "launcher/process/own_environment.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <ctime>

#include "launcher/measure/bench/suite/measure.h"
#include "launcher/measure/bench/suite/report.h"
#include "launcher/measure/bench/suite/selection.h"
#include "launcher/measure/bench/suite/shapes.h"
#include "launcher/measure/sweep/starting_place.h"
#include "launcher/process/interruption.h"
#include "runtime/core/atomic_file.h"

namespace lockstep::launcher::suite {
namespace {

namespace fs = std::filesystem;

constexpr int kPairs = 5, kQuickPairs = 2;

void say(const std::string& line) { fmt::print(stderr, "[suite] {}\n", line); }

bool is_on_path(std::string_view program, const process::EnvironmentMap& environment) {
  const auto found = environment.find("PATH");
  std::string_view rest = found == environment.end() ? "" : std::string_view(found->second);
  while (!rest.empty()) {
    const size_t end = std::min(rest.find(':'), rest.size());
    if (::access((fs::path(rest.substr(0, end)) / program).c_str(), X_OK) == 0) return true;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return false;
}

Result<fs::path> make_folder(const fs::path& folder) {
  std::error_code failed;
  fs::create_directories(folder / "shapes", failed);
  if (!failed && ::access(folder.c_str(), W_OK) == 0) return fs::absolute(folder);
  return Error{
      ErrorKind::kInvalidArgument,
      fmt::format("[launcher/bench] --out: found {}, expected a folder that can be made and written", folder.string())};
}

/// tools/compare of the sources that the program was built from, if it still lies among them.
std::optional<fs::path> find_scripts(const BenchCommand& command, const fs::path& program) {
  std::error_code ignored;
  if (!command.suite.rival_scripts.empty()) return fs::absolute(command.suite.rival_scripts);
  for (fs::path above = program.parent_path(); above.has_relative_path(); above = above.parent_path()) {
    if (fs::exists(above / "tools" / "compare" / "compare.py", ignored)) return above / "tools" / "compare";
  }
  return std::nullopt;
}

std::vector<std::string> compare_words(const BenchCommand& command, const fs::path& program, const fs::path& folder) {
  const std::optional<fs::path> scripts = find_scripts(command, program);
  if (!scripts) return {};
  std::vector<std::string> words{"python3", (*scripts / "compare.py").string(), "--models",
                                 (folder / "models").string()};
  for (const std::string& rival : command.suite.rivals) words.insert(words.end(), {"--rival", rival});
  return words;
}

Result<void> check_rivals(const std::vector<std::string>& rivals) {
  for (const std::string& rival : rivals) {
    const size_t equals = rival.find('=');
    if (equals != std::string::npos && equals > 0 && equals + 1 < rival.size()) continue;
    return Error{ErrorKind::kInvalidArgument,
                 fmt::format("[launcher/bench] --rival: found \"{}\", expected NAME=PATH, such as "
                             "ik=build/bin/llama-bench",
                             rival)};
  }
  return ok();
}

/// The two shapes as files; both are the one of --config where that is given.
Result<void> write_shapes(const BenchCommand& command, const fs::path& folder, Setting& setting) {
  if (!command.config.empty()) {
    setting.large = setting.small = fs::absolute(command.config);
    return ok();
  }
  setting.large = folder / "shapes" / "llama-3.2-1b.json";
  setting.small = folder / "shapes" / "smollm2-135m.json";
  LOCKSTEP_TRY_VOID(write_text_file(setting.large, llama_3_2_1b()));
  return write_text_file(setting.small, smollm2_135m());
}

Result<Setting> make_setting(const BenchCommand& command, const fs::path& folder, const Machine& machine) {
  const SuiteOptions& options = command.suite;
  const fs::path program = fs::read_symlink("/proc/self/exe");
  const RankShape shape = rank_shape(machine.cores, command.model.tp);
  Setting setting{.cores = machine.cores,
                  .ranks = shape.ranks,
                  .threads = command.run.threads.value_or(shape.threads),
                  .program = program.string(),
                  .checkpoint = options.checkpoint,
                  .pairs = options.pairs.value_or(options.quick ? kQuickPairs : kPairs),
                  .repeats = options.quick ? 1 : 2,
                  .deadline_s = options.child_deadline_s,
                  .compare = compare_words(command, program, folder)};
  if (const fs::path beside = program.parent_path() / "collective_benchmark"; ::access(beside.c_str(), X_OK) == 0) {
    setting.collectives = beside;
  }
  if (setting.checkpoint) setting.checkpoint = fs::absolute(*setting.checkpoint);
  LOCKSTEP_TRY(setting.launch, parse_launch_template(options.launch_template, shape.ranks));
  if (setting.launch.words.empty() && !is_on_path("mpirun", own_environment())) setting.launch.threads = true;
  if (command.probe_bytes) {
    setting.shared = {"--probe-mib", std::to_string(static_cast<int64_t>(command.probe_bytes->value) >> 20)};
  }
  LOCKSTEP_TRY_VOID(check_rivals(options.rivals));
  LOCKSTEP_TRY_VOID(write_shapes(command, folder, setting));
  return setting;
}

/// Runs every measurement; an interruption ends them and is told, after the report was written.
Result<void> run_all(const Suite& suite, const MeasureOptions& options, Report& report) {
  for (size_t i = 0; i < suite.measurements.size(); ++i) {
    const Measurement& measurement = suite.measurements[i];
    const auto records = measure(measurement, options, [&](const std::string& line) {
      say(fmt::format("{} of {}: {}", i + 1, suite.measurements.size(), line));
    });
    if (!records.has_value()) return records.error();
    report.children.emplace_back(measurement.id, records.value());
  }
  return ok();
}

void make_rows(const Suite& suite, Report& report) {
  for (const Goal& goal : suite.goals) {
    const auto measurement = std::ranges::find(suite.measurements, goal.measurement, &Measurement::id);
    const auto ran =
        std::ranges::find(report.children, goal.measurement, &std::pair<std::string, std::vector<ChildRecord>>::first);
    Row row = make_row(goal, *measurement, ran == report.children.end() ? std::vector<ChildRecord>() : ran->second);
    if (ran == report.children.end()) row.reason = "interrupted before it was measured";
    report.rows.push_back(std::move(row));
  }
  report.rivals = rivals_of(report.children);
}

Result<void> write_report(const fs::path& folder, const Report& report) {
  LOCKSTEP_TRY_VOID(write_text_file(folder / "suite.json", to_json(report)));
  LOCKSTEP_TRY_VOID(write_text_file(folder / "suite.svg", to_svg(report)));
  LOCKSTEP_TRY_VOID(write_text_file(folder / "suite.html", to_page(report)));
  fmt::print("{}", to_table(report));
  std::fflush(stdout);
  say(fmt::format("report: {}", (folder / "suite.html").string()));
  return ok();
}

ErrorKind kind_of(int code) {
  for (int kind = 0; kind <= static_cast<int>(ErrorKind::kCancelled); ++kind) {
    if (exit_code(static_cast<ErrorKind>(kind)) == code) return static_cast<ErrorKind>(kind);
  }
  return ErrorKind::kFailedPrecondition;  // a launcher's own, or a signal
}

/// The first program that failed decides; what is not available or missing is no failure.
Result<void> judge_children(const Report& report) {
  for (const auto& [measurement, records] : report.children) {
    for (const ChildRecord& record : records) {
      if (record.status != ChildRecord::Status::kFailed) continue;
      return Error{kind_of(record.code), fmt::format("[launcher/bench] the measurement \"{}\" failed at \"{}\": {}",
                                                     measurement, record.side, record.reason)};
    }
  }
  return ok();
}

}  // namespace

RankShape rank_shape(int cores, std::optional<int> ranks) {
  const int count = ranks.value_or(cores >= 2 ? 2 : 1);
  return {.ranks = count, .threads = std::max(1, cores / count)};
}

Result<void> run(const BenchCommand& command) {
  LOCKSTEP_TRY_VOID(check_not_launched("bench --suite"));
  process::ChildStop stop;
  const Interruption interruption([&](int) { stop.raise(); });  // before any other thread
  const Machine machine = this_machine();
  LOCKSTEP_TRY(const fs::path folder, make_folder(command.suite.out));
  LOCKSTEP_TRY(const Setting setting, make_setting(command, folder, machine));
  Suite suite = cpu_suite(setting);
  if (!command.suite.only.empty()) {
    LOCKSTEP_TRY(suite, only(suite, command.suite.only));
  }
  Report report{.suite = command.suite.name,
                .version = LOCKSTEP_VERSION,
                .machine = machine,
                .ranks = setting.ranks,
                .threads = setting.threads,
                .pairs = setting.pairs};
  const MeasureOptions options{.folder = folder,
                               .environment = scrubbed(own_environment(), setting.launch),
                               .threads = machine.cores,
                               .stop = &stop};
  const Result<void> ran = run_all(suite, options, report);
  report.unix_time = static_cast<double>(std::time(nullptr));
  make_rows(suite, report);
  LOCKSTEP_TRY_VOID(write_report(folder, report));
  if (!ran.has_value()) return ran.error();
  return judge_children(report);
}

}  // namespace lockstep::launcher::suite
