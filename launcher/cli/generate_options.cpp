#include <CLI/CLI.hpp>

#include "launcher/cli/backend_options.h"
#include "launcher/cli/commands.h"
#include "launcher/cli/generation_options.h"
#include "launcher/cli/shared_options.h"

namespace lockstep::launcher {

void add_generate(CLI::App& parent, GenerateCommand& command) {
  CLI::App& app = *parent.add_subcommand("generate", "Continue prompts");
  add_model_options(app, command.model, command.engine);
  begin_section(app, "Prompts");
  auto* prompts = app.add_option_group("prompts", "Exactly one of these");
  prompts->add_option("--prompt", command.prompts.texts, "Text; may be given again")->type_name("TEXT");
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
  app.add_option_function<int32_t>(
         "--max-new-tokens",
         [&command](const int32_t& tokens) { command.generation["max_new_tokens"] = std::to_string(tokens); },
         "Most new tokens; default: the length of generation_config.json, if it has one, else until an end token "
         "or the slot's capacity")
      ->check(CLI::Range(1, 1 << 24))
      ->type_name("N");
  add_generation_options(app, command);
  app.add_option("--draft-model", command.engine.drafting.model,
                 "A smaller model with the same tokenizer that drafts --num-assistant-tokens tokens a step")
      ->type_name("DIR");
  begin_section(app, "Output");
  app.add_option("--json", command.json, "Write tokens, texts, timings and memory to this file (JSON)")
      ->type_name("OUT");
  app.add_option("--output-logits", command.output_logits, "Write the raw logits of every new token (safetensors)")
      ->type_name("OUT");
  app.add_option("--output-scores", command.output_scores,
                 "Write the processed scores that every new token was chosen from (safetensors)")
      ->type_name("OUT");
  app.add_option("--output", command.output,
                 "With --prompts-file: write a JSON object a row to this file, in order; default: stdout")
      ->type_name("OUT");
  app.add_option("--journal", command.journal,
                 "With --prompts-file: folder that keeps every finished row; the same command goes on from there")
      ->type_name("DIR");
  add_observe_options(app, command.engine.observe);
  add_run_options(app, command.run, command.engine);
  add_backend_options(app, device::OptionUse::kRunning, command.engine.backend_options);
}

}  // namespace lockstep::launcher
