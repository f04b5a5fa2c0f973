#include <CLI/CLI.hpp>

#include "launcher/cli/commands.h"
#include "launcher/cli/shared_options.h"

namespace lockstep::launcher {
namespace {

/// Options of bench that a sweep sets itself or defines differently.
constexpr const char* kNotOfSweeps[] = {
    "--tp",    "--batch-size", "--prompt-tokens", "--json",           "--launch",
    "--trace", "--barrier",    "--exit-record",   "--peer-detection", "--retry-failed"};

/// Options that are not forwarded unchanged: they name the model and the grid, or are not bench's.
const std::string kOwn[] = {"--model",      "--random-weights", "--config",          "--tp",
                            "--replicas",   "--batch-size",     "--prompt-tokens",   "--new-tokens",
                            "--out",        "--slurm-array",    "--report",          "--launch-template",
                            "--only-point", "--retry-failed",   "--point-deadline-s"};

void add_grid_options(CLI::App& app, SweepCommand& command) {
  begin_section(app, "Grid");
  app.add_option("--tp", command.tp, "Tensor-parallel degrees, such as 1,2,4")
      ->capture_default_str()
      ->type_name("P[,P]");
  app.add_option("--replicas", command.replicas,
                 "Numbers of groups that run at the same time and share the batch and the cores, each of --tp ranks")
      ->capture_default_str()
      ->type_name("R[,R]");
  app.add_option("--batch-size", command.batch_sizes, "Batch sizes, of all groups of a point together")
      ->capture_default_str()
      ->type_name("B[,B]");
  app.add_option("--prompt-tokens", command.prompt_tokens, "Prompt lengths: random ids, always the same")
      ->capture_default_str()
      ->type_name("N[,N]");
}

void add_study_options(CLI::App& app, SweepCommand& command) {
  begin_section(app, "Study");
  app.add_option("--out", command.out, "Folder of the journal and the report; made if it is not there")
      ->required()
      ->type_name("DIR");
  app.add_option(
         "--launch-template", command.launch_template,
         "What starts the ranks of a point, such as \"mpirun -n {ranks} --bind-to core\", or threads: all ranks "
         "in one process; default: mpirun -n {ranks} for several ranks, "
         "processes (of lockstep) with several --replicas")
      ->type_name("WORDS");
  app.add_option("--point-deadline-s", command.point_deadline_s, "Seconds after which a point is ended; default: none")
      ->check(CLI::Range(0.1, 1e7))
      ->type_name("S");
  app.add_flag_callback(
      "--retry-failed", [&command] { command.failed_points = FailedPoints::kRetry; },
      "Run points again that failed before");
  auto* array = app.add_flag_callback(
      "--slurm-array", [&command] { command.mode = SweepMode::kSlurmArray; },
      "Run nothing: write a Slurm job array with a task for each point");
  auto* report = app.add_flag_callback(
      "--report", [&command] { command.mode = SweepMode::kReport; },
      "Run nothing: make the report of what the folder's journals hold");
  auto* only = app.add_option("--only-point", command.only_point, "Run one point of the grid, counted from 0")
                   ->check(CLI::Range(0, 1 << 20))
                   ->type_name("I");
  array->excludes(report)->excludes(only);
  report->excludes(only);
}

}  // namespace

void add_sweep(CLI::App& parent, SweepCommand& command, int64_t& probe_mib) {
  CLI::App& app = *parent.add_subcommand("sweep", "Run bench over degrees, batch sizes and prompts; report scaling");
  add_bench_options(app, command.bench, probe_mib);
  for (const char* name : kNotOfSweeps) app.remove_option(app.get_option(name));
  add_grid_options(app, command);
  add_study_options(app, command);
  app.footer("\nOptions that are not of the grid or the study are handed on to bench. See docs/sweep.md.\n");
  app.final_callback([&app, &command] {
    const bool has_model = app.count("--model") + app.count("--random-weights") > 0;
    if (!has_model && command.mode != SweepMode::kReport) throw CLI::RequiredError("--model or --random-weights");
  });
}

std::vector<std::string> shared_options(const CLI::App& app, const std::vector<std::string>& words) {
  return options_among(app, words, kOwn);
}

}  // namespace lockstep::launcher
