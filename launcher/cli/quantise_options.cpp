#include <CLI/CLI.hpp>
#include <algorithm>
#include <thread>

#include "launcher/cli/commands.h"
#include "launcher/cli/shared_options.h"

namespace lockstep::launcher {

void add_quantise(CLI::App& parent, QuantiseCommand& command) {
  command.threads = static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1u, 64u));
  CLI::App& app = *parent.add_subcommand("quantise", "Write a copy of a checkpoint in 4 or 8 bits");
  app.add_option("--model", command.model, "Hugging Face directory")->required()->type_name("DIR");
  app.add_option_function<std::string>(
         "--weights", [&command](const std::string& text) { command.weights = copied_weights(text); },
         "Of the layers' matrices; GROUP columns to a scale, 32 with 4 bits and 64 with 8 if omitted")
      ->required()
      ->type_name("q4|q8[:GROUP]");
  app.add_option("--out", command.out, "The copy's folder, empty or not there yet: safetensors of compressed-tensors")
      ->required()
      ->type_name("DIR");
  app.add_option("--text-file", command.text, "A text whose perplexity is measured before and after")->type_name("F");
  app.add_option("--threads", command.threads, "Of this process")->check(CLI::Range(1, 1024))->type_name("N");
  app.add_option("--json", command.json,
                 "Write the errors of all matrices to this file; default: a line a layer to stdout")
      ->type_name("OUT");
}

}  // namespace lockstep::launcher
