#include <CLI/CLI.hpp>

#include "launcher/cli/commands.h"

namespace lockstep::launcher {

void add_supervise(CLI::App& parent, SuperviseCommand& command) {
  CLI::App& app = *parent.add_subcommand("supervise",
                                         "Run a batch job, and start it again from its journal when a "
                                         "rank is lost");
  app.footer(
      "\n"
      "lockstep supervise [OPTIONS] -- [mpirun -n P] lockstep generate --prompts-file F --journal DIR …");
  app.add_option("--restarts", command.restarts, "Restarts at most")
      ->check(CLI::Range(0, 1000000))
      ->capture_default_str()
      ->type_name("N");
  app.add_option("--stalled-restarts", command.stalled_restarts, "Of them, in a row after starts that finished no row")
      ->check(CLI::Range(0, 1000000))
      ->capture_default_str()
      ->type_name("N");
  app.add_option("--backoff-s", command.backoff_s,
                 "Seconds before a restart; twice as many after each start that finished no row, up to 60")
      ->check(CLI::Range(0.0, 3600.0))
      ->capture_default_str()
      ->type_name("S");
  app.add_flag("--shrink", command.shrink,
               "Go on with fewer ranks when one is lost twice in a row, or the launcher has no place for all");
}

}  // namespace lockstep::launcher
