#include <CLI/CLI.hpp>
#include <string>

#include "launcher/cli/commands.h"

namespace lockstep::launcher {

void add_control(CLI::App& parent, ControlCommand& command) {
  CLI::App& app = *parent.add_subcommand("ctl", "Ask a running server for its state, or for another number of ranks");
  app.add_option_function<std::string>(
         "action",
         [&command](const std::string& word) {
           command.action = word == "degree" ? ControlAction::kDegree : ControlAction::kStatus;
         },
         "status, or degree N: the number of ranks, while clients stream")
      ->required()
      ->check(CLI::IsMember({"status", "degree"}));
  app.add_option("ranks", command.ranks, "Of degree: tensor-parallel ranks")
      ->check(CLI::Range(1, 4096))
      ->type_name("N");
  app.add_option("--endpoint-file", command.endpoint_file, "The file that lockstep serve --endpoint-file has written")
      ->required()
      ->type_name("F");
  app.add_option("--deadline-s", command.deadline_s, "Of degree: seconds until the new ranks have to serve")
      ->check(CLI::Range(0.1, 1e6))
      ->capture_default_str()
      ->type_name("S");
  app.callback([&command] {
    const bool has_ranks = command.ranks.has_value(), needs_ranks = command.action == ControlAction::kDegree;
    if (has_ranks == needs_ranks) return;
    throw CLI::ValidationError("ctl", needs_ranks ? "found degree without a number of ranks, expected degree N"
                                                  : "found a number behind status, expected none");
  });
  app.footer("\nlockstep ctl degree 3 --endpoint-file server.json\n");
}

}  // namespace lockstep::launcher
