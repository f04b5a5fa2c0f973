#include <CLI/CLI.hpp>
#include <string>
#include <utility>
#include <vector>

#include "launcher/cli/commands.h"

namespace lockstep::launcher {
namespace {

constexpr std::pair<const char*, ControlAction> kActions[] = {
    {"status", ControlAction::kStatus}, {"degree", ControlAction::kDegree}, {"restart", ControlAction::kRestart}};

}  // namespace

void add_control(CLI::App& parent, ControlCommand& command) {
  std::vector<std::string> names;
  for (const auto& [name, action] : kActions) names.emplace_back(name);
  CLI::App& app =
      *parent.add_subcommand("ctl", "Ask a running server for its state, another number of ranks, or new ones");
  app.add_option_function<std::string>(
         "action",
         [&command](const std::string& word) {
           for (const auto& [name, action] : kActions) {
             if (word == name) command.action = action;
           }
         },
         "status; degree N: another number of ranks, while clients stream; or restart: new ranks, as many as serve, "
         "from the program's file as it is now")
      ->required()
      ->check(CLI::IsMember(names));
  app.add_option("ranks", command.ranks, "Of degree: tensor-parallel ranks")
      ->check(CLI::Range(1, 4096))
      ->type_name("N");
  app.add_option("--endpoint-file", command.endpoint_file, "The file that lockstep serve --endpoint-file has written")
      ->required()
      ->type_name("F");
  app.add_option("--deadline-s", command.deadline_s, "Seconds until the new ranks have to serve")
      ->check(CLI::Range(0.1, 1e6))
      ->capture_default_str()
      ->type_name("S");
  app.callback([&command] {
    const bool has_ranks = command.ranks.has_value(), needs_ranks = command.action == ControlAction::kDegree;
    if (has_ranks == needs_ranks) return;
    throw CLI::ValidationError("ctl", needs_ranks ? "found degree without a number of ranks, expected degree N"
                                                  : "found a number behind status or restart, expected none");
  });
  app.footer("\nlockstep ctl degree 3 --endpoint-file server.json\n");
}

}  // namespace lockstep::launcher
