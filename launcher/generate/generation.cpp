#include "launcher/generate/generation.h"

#include <fmt/format.h>

#include "lockstep/engine.h"

namespace lockstep::launcher {

Result<GenerationConfig> generation_of(const GenerateCommand& command, const Model& model) {
  GenerationConfig config = model.generation();
  for (const auto& [name, value] : command.generation) LOCKSTEP_TRY_VOID(config.set(name, value));
  if (command.ignore_eos) config.eos_token_ids.clear();
  if (!command.stop_strings.empty()) config.stop_strings = command.stop_strings;
  config.output_scores = command.output_scores.has_value();
  config.output_logits = command.output_logits.has_value();
  LOCKSTEP_TRY_VOID(config.validate());
  return config;
}

EngineOptions engine_options(const GenerateCommand& command, const GenerationConfig& config) {
  EngineOptions options = command.engine;
  options.choosers = needs_choosers(config) ? Choosers::kAllowed : Choosers::kNone;
  return options;
}

Result<std::string> statement_of(const GenerateCommand& command) {
  LOCKSTEP_TRY(std::string text, lockstep::statement_of(command.engine));
  text += fmt::format("--output-logits {}\n--output-scores {}\n--ignore-eos {}\n--chat {}\n",
                      command.output_logits ? "yes" : "no", command.output_scores ? "yes" : "no", command.ignore_eos,
                      command.chat);
  for (const auto& [name, value] : command.generation) text += fmt::format("{} {}\n", name, value);
  return text;
}

Error contradiction(const std::string& found, std::string_view expected) {
  return {ErrorKind::kInvalidArgument,
          fmt::format("[launcher] options contradict each other: found {}, expected {}", found, expected)};
}

}  // namespace lockstep::launcher
