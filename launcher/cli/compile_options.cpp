// Command-line options of `compile` and `export`.
#include <CLI/CLI.hpp>

#include "launcher/cli/backend_options.h"
#include "launcher/cli/commands.h"
#include "launcher/cli/shared_options.h"

namespace lockstep::launcher {
namespace {

constexpr int kMostJobs = 256;

void add_compile_options(CLI::App& app, CompileCommand& command) {
  add_model_options(app, command.model, command.engine);
  app.get_option("--model")->required(false)->description("Hugging Face directory; only its config.json is read");
  app.get_option("--tp")->description("Tensor-parallel degree; default: 1");
  app.get_option("--batch-size")->description("Sequences at once, as the runs will have it; default: 1");
  app.get_option("--max-seq-len")
      ->description("Tokens that a slot can hold, as the runs will have it; default: 2048, or what the model can");
  app.add_option("--config", command.config, "A config.json, instead of --model")->excludes("--model")->type_name("F");
  const std::vector<std::string> backends = backends_with(device::OptionUse::kCompiling);
  if (!backends.empty()) command.engine.backend = backends.front();
  app.add_option("--backend", command.engine.backend, "The backend that is compiled for")
      ->check(CLI::IsMember(backends))
      ->capture_default_str()
      ->type_name("NAME");
  add_backend_options(app, device::OptionUse::kCompiling, command.engine.backend_options);
  begin_section(app, "What is compiled");
  app.add_option("--drafts", command.engine.drafting.tokens,
                 "Tokens that are drafted a step, as --prompt-lookup-num-tokens says in runs")
      ->check(CLI::Range(int64_t{1}, int64_t{1024}))
      ->type_name("N");
  app.add_flag("--logits", command.logits, "For runs that need logits on the host: --output-logits, processors");
  app.add_option("--jobs", command.jobs, "Compilations at once; each takes cores and gigabytes")
      ->check(CLI::Range(1, kMostJobs))
      ->capture_default_str()
      ->type_name("N");
  app.add_option("--modules", command.modules,
                 "Also write what the compiler is given of each graph there, to run it by hand")
      ->type_name("DIR");
  app.add_option("--json", command.json, "Write every graph and what became of it to this file")->type_name("OUT");
  app.final_callback([&app] {
    if (app.count("--model") + app.count("--config") == 0) throw CLI::RequiredError("--model or --config");
  });
}

}  // namespace

void add_compile(CLI::App& parent, CompileCommand& command) {
  CLI::App& app = *parent.add_subcommand(
      "compile", "Compile the graphs of a model ahead of time, on a machine that needs no devices");
  add_compile_options(app, command);
}

void add_export(CLI::App& parent, ExportCommand& command) {
  CLI::App& app = *parent.add_subcommand(
      "export", "Copy the compiled graphs of a model to a folder for --artifacts, and compile those that are missing");
  add_compile_options(app, command.compile);
  app.add_option("--to", command.to, "The folder; made when it is not there")->required()->type_name("DIR");
}

}  // namespace lockstep::launcher
