#include <CLI/CLI.hpp>
#include <algorithm>
#include <thread>

#include "launcher/cli/commands.h"
#include "launcher/cli/shared_options.h"

namespace lockstep::launcher {

void add_verify(CLI::App& parent, VerifyCommand& command) {
  command.threads = static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1u, 64u));
  CLI::App& app = *parent.add_subcommand("verify", "Compare a model's weight files with the sums beside them");
  app.add_option("--model", command.model, "Hugging Face directory or GGUF file")->required()->type_name("DIR|F.gguf");
  app.add_flag("--write", command.writes,
               "Write the sums, to lockstep.sums.json in the directory or F.gguf.sums.json; every run compares its "
               "weights with them");
  app.add_flag("--replace", command.replaces, "With --write: overwrite other sums");
  app.add_option("--threads", command.threads, "Of this process")->check(CLI::Range(1, 1024))->type_name("N");
}

}  // namespace lockstep::launcher
