#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>

#include "launcher/cli/commands.h"
#include "launcher/cli/shared_options.h"

namespace lockstep::launcher {
namespace {

/// The options for starting ranks, among those for running a model.
constexpr std::array kKept = {"--launch", "--threads", "--interface"};

void keep_launch_options(CLI::App& app) {
  for (CLI::Option* option : app.get_options([](const CLI::Option* given) { return given != nullptr; })) {
    const std::string name = option->get_name();
    const bool is_help = option == app.get_help_ptr();
    if (!is_help && std::ranges::find(kKept, name) == kKept.end()) app.remove_option(option);
  }
}

}  // namespace

void add_doctor(CLI::App& parent, DoctorCommand& command, int64_t& probe_mib) {
  CLI::App& app = *parent.add_subcommand(
      "doctor", "Check the launch and the machine before any model is there: [mpirun -n P] lockstep doctor");
  add_run_options(app, command.run, command.engine);
  keep_launch_options(app);
  app.add_option("--tp", command.ranks, "Ranks: of --launch threads, or as many as the launcher should have started")
      ->check(CLI::Range(1, 4096))
      ->type_name("P");
  begin_section(app, "Checks");
  app.add_option("--stage-deadline-s", command.stage_deadline_s,
                 "Seconds after which a check that hangs is ended, and the ranks that hold it up are named")
      ->check(CLI::Range(0.1, 86400.0))
      ->capture_default_str()
      ->type_name("S");
  app.add_flag("--quick", command.quick,
               "Leave out the machine's limits (memory bandwidth and FLOP/s), time communicators more briefly");
  app.add_option("--model", command.model, "Also check that every rank sees the same files here and can read them")
      ->type_name("DIR");
  app.add_option("--probe-mib", probe_mib,
                 "MiB that a thread reads to measure the bandwidth; default: what no cache "
                 "holds")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20))
      ->type_name("N");
  app.add_flag_callback(
      "--strict", [&command] { command.warnings = Warnings::kFail; }, "Warnings count as failures: exit code 4");
  app.add_option("--json", command.json, "Write checks, collectives, hosts, ranks and probe to this file")
      ->type_name("OUT");
}

}  // namespace lockstep::launcher
