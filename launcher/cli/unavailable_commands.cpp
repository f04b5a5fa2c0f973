// The measuring commands of a build without them, which fail when run.
#include <CLI/CLI.hpp>

#include "launcher/cli/commands.h"

namespace lockstep::launcher {
namespace {

void add_missing(CLI::App& parent, const char* name) {
  CLI::App& app = *parent.add_subcommand(name, "Not in this build: -DLOCKSTEP_WITH_MEASURE=ON brings it");
  app.set_help_flag();
  app.allow_extras();
}

}  // namespace

void add_bench(CLI::App& parent, BenchCommand&, int64_t&) { add_missing(parent, "bench"); }
void add_plan(CLI::App& parent, PlanCommand&, int64_t&) { add_missing(parent, "plan"); }
void add_doctor(CLI::App& parent, DoctorCommand&, int64_t&) { add_missing(parent, "doctor"); }
void add_sweep(CLI::App& parent, SweepCommand&, int64_t&) { add_missing(parent, "sweep"); }

std::vector<std::string> shared_options(const CLI::App&, const std::vector<std::string>&) { return {}; }

}  // namespace lockstep::launcher
