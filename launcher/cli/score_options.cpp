#include <CLI/CLI.hpp>

#include "launcher/cli/commands.h"
#include "launcher/cli/shared_options.h"

namespace lockstep::launcher {

void add_score(CLI::App& parent, ScoreCommand& command) {
  CLI::App& app = *parent.add_subcommand("score", "Log-probabilities of given texts");
  add_model_options(app, command.model, command.engine);
  begin_section(app, "Texts");
  auto* texts = app.add_option_group("texts", "Exactly one of these");
  texts->add_option("--text", command.texts, "Text; may be repeated")->type_name("TEXT");
  texts->add_option("--texts-file", command.texts_file, "JSON array of strings")->type_name("F");
  texts->add_option("--ids-file", command.ids_file, "JSON rows of token ids, or of {ids, mask}")->type_name("F");
  texts->require_option(1);
  begin_section(app, "Output");
  app.add_option("--top", command.top, "Likeliest tokens that are named in each place")
      ->check(CLI::Range(int64_t{0}, kMostTokens))
      ->capture_default_str()
      ->type_name("N");
  app.add_option("--json", command.json,
                 "Write {\"rows\": [{\"ids\", \"logprobs\", \"top\"}]} to this file; default: a line a text to stdout")
      ->type_name("OUT");
  add_engine_options(app, command.run, command.engine);
}

}  // namespace lockstep::launcher
