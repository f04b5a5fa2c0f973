#include <CLI/CLI.hpp>

#include "launcher/cli/commands.h"
#include "launcher/cli/generation_options.h"
#include "launcher/cli/option_table.h"
#include "launcher/cli/shared_options.h"
#include "launcher/cli/wanted_text.h"
#include "lockstep/request.h"

namespace lockstep::launcher {
namespace {

void add_replica_options(CLI::App& app, GenerateCommand& command) {
  app.add_option("--replicas", command.replicas,
                 "With --prompts-file: groups of --tp ranks that share the rows, each on its part of this machine's "
                 "cores")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str()
      ->type_name("N");
  // How a job starts its replicas: no options for people.
  app.add_option("--rows-from", command.rows_from.socket)->group("");
  app.add_option("--replica", command.rows_from.group)->group("");
}

}  // namespace

void add_generate(CLI::App& parent, GenerateCommand& command) {
  CLI::App& app = *parent.add_subcommand("generate", "Continue prompts");
  add_model_options(app, command.model, command.engine);
  begin_section(app, "Prompts");
  auto* prompts = app.add_option_group("prompts", "Exactly one of these");
  prompts->add_option("--prompt", command.prompts.texts, "Text; may be repeated")->type_name("TEXT");
  prompts->add_option("--prompt-file", command.prompts.file, "A file that holds one prompt")->type_name("F");
  prompts->add_option("--ids-file", command.prompts.ids_file, "JSON rows of token ids, or of {ids, mask, negative}")
      ->type_name("F");
  prompts
      ->add_option("--prompts-file", command.prompts.jobs_file,
                   "A batch job: a JSON object a line, {\"id\", \"prompt\" or \"ids\" or \"messages\" …} "
                   "(docs/batch_jobs.md)")
      ->type_name("F");
  prompts->require_option(1);
  app.add_flag("--chat", command.chat, "Apply the model's chat template to each prompt");
  app.add_option(
         "--negative-prompt", command.negative_prompts,
         "Text that --guidance-scale leads away from: one for all prompts, or one for each; default: the prompt's last "
         "token alone")
      ->type_name("TEXT");
  begin_section(app,
                "Generation, as in Hugging Face's GenerationConfig (defaults: the model's generation_config.json)");
  add_generation_options(app, command);
  app.add_option("--draft-model", command.engine.drafting.model,
                 "A smaller model with the same tokenizer that drafts --num-assistant-tokens tokens a step")
      ->type_name("DIR");
  begin_section(app, "Output");
  add_text_flag(app, "--option-table", option_table, "Print the options of generation as Markdown");
  app.add_option("--json", command.json, "Write tokens, texts, timings and memory to this file (JSON)")
      ->type_name("OUT");
  app.add_option("--output-logits", command.output_logits, std::string(find_generation_option("output_logits")->help))
      ->type_name("OUT");
  app.add_option("--output-scores", command.output_scores, std::string(find_generation_option("output_scores")->help))
      ->type_name("OUT");
  app.add_option("--output", command.output,
                 "With --prompts-file: write a JSON object a row to this file, in order; default: stdout")
      ->type_name("OUT");
  app.add_option("--journal", command.journal,
                 "With --prompts-file: folder that keeps every finished row; the same command goes on from there")
      ->type_name("DIR");
  add_replica_options(app, command);
  add_engine_options(app, command.run, command.engine);
}

}  // namespace lockstep::launcher
