// Command-line options of `explain` and `tokenize`.
#include <CLI/CLI.hpp>

#include "launcher/cli/backend_options.h"
#include "launcher/cli/commands.h"
#include "launcher/cli/shared_options.h"
#include "lockstep/engine.h"

namespace lockstep::launcher {

void add_tokenize(CLI::App& parent, TokenizeCommand& command) {
  CLI::App& app = *parent.add_subcommand("tokenize", "Text to token ids and back");
  app.add_option("--model", command.model, "Directory with tokenizer.json, or .gguf file")
      ->required()
      ->type_name("DIR");
  auto* texts = app.add_option_group("texts", "Exactly one of these");
  texts->add_option("--text", command.texts, "Text; may be repeated")->type_name("TEXT");
  texts->add_option("--texts-file", command.texts_file, "JSON array of strings")->type_name("F");
  texts->require_option(1);
  app.add_flag("!--no-special-tokens", command.special_tokens,
               "Do not add the tokens that the model puts around a text");
  app.add_option("--json", command.json, "Write {\"ids\", \"decoded\"} to this file")->type_name("OUT");
}

void add_explain(CLI::App& parent, ExplainCommand& command) {
  CLI::App& app = *parent.add_subcommand("explain", "Print partition, graphs, memory and cost without reading weights");
  add_model_options(app, command.model, command.engine);
  begin_section(app, "What is printed");
  app.add_option("--rank", command.rank, "Whose graphs")
      ->check(CLI::Range(0, 4095))
      ->capture_default_str()
      ->type_name("R");
  app.add_option("--phase", command.phase, "Graphs of which steps")
      ->check(CLI::IsMember({"prefill", "decode", "both"}))
      ->capture_default_str();
  app.add_option("--passes", command.passes, "Graphs before the passes, after them, or after each")
      ->check(CLI::IsMember({"before", "after", "each"}))
      ->capture_default_str();
  app.add_option("--show", command.show, "Graphs, the summary above them, or both")
      ->check(CLI::IsMember({"all", "graph", "summary"}))
      ->capture_default_str();
  app.add_option("--backend", command.backend,
                 "Instead of graphs, what a backend makes of them (docs/neuron.md; cpu: which nodes run together)")
      ->check(CLI::IsMember(backend_names()))
      ->type_name("NAME");
}

}  // namespace lockstep::launcher
