#include "launcher/batch/row_requests.h"

#include <fmt/format.h>

#include <ctime>

#include "launcher/generate/generation.h"

namespace lockstep::launcher {

Result<RowRequests> RowRequests::make(const GenerateCommand& command, const Model& model, bool needs_tokenizer) {
  RowRequests made(command, model);
  LOCKSTEP_TRY_VOID(made.load(needs_tokenizer));
  return made;
}

Result<void> RowRequests::load(bool needs_tokenizer) {
  LOCKSTEP_TRY(config_, generation_of(*command_, *model_));
  const std::vector<std::string>& negatives = command_->negative_prompts;
  if (negatives.size() > 1) {
    return contradiction(fmt::format("{} negative prompts and --prompts-file", negatives.size()), "one for all rows");
  }
  if (!negatives.empty() && config_.guidance_scale == 1.0) {
    return contradiction("a negative prompt without guidance", "--guidance-scale other than 1; add it or omit both");
  }
  LOCKSTEP_TRY(const text::Tokenizer* tokenizer, model_->tokenizer());
  if ((needs_tokenizer || !config_.stop_strings.empty()) && tokenizer == nullptr) {
    LOCKSTEP_TRY_VOID(model_->encode(""));  // its error names what is missing
  }
  if (command_->chat) {
    const auto chat = model_->encode_chat({{"user", "a"}});  // a template may reject this and accept a row's messages
    if (!chat.has_value() && chat.error().kind != ErrorKind::kInvalidArgument) return chat.error();
  }
  if (negatives.empty()) return ok();
  LOCKSTEP_TRY(negative_, model_->encode(negatives.front()));
  return ok();
}

Result<Prompt> RowRequests::prompt_of(const JobRow& row) const {
  Prompt prompt{.ids = row.ids, .negative = negative_};
  if (!prompt.ids.empty()) return prompt;
  if (command_->chat) {
    const auto now = static_cast<std::time_t>(unix_time_);
    std::tm local{};
    localtime_r(&now, &local);
    const std::vector<text::Message> question = {{"user", row.prompt}};
    LOCKSTEP_TRY(prompt.ids, model_->encode_chat(row.messages.empty() ? question : row.messages, {.now = local}));
  } else {
    LOCKSTEP_TRY(prompt.ids, model_->encode(row.prompt));
  }
  if (!prompt.ids.empty()) return prompt;
  return Error{ErrorKind::kInvalidArgument, "[launcher] a prompt has no tokens; expected at least one"};
}

Result<GenerationConfig> RowRequests::config_of(const JobRow& row) const {
  GenerationConfig config = config_;
  for (const auto& [name, value] : row.generation) LOCKSTEP_TRY_VOID(config.set(name, value));
  if (row.max_new_tokens) config.max_new_tokens = row.max_new_tokens;
  if (row.stop_strings) config.stop_strings = *row.stop_strings;
  LOCKSTEP_TRY_VOID(config.validate());
  if (needs_choosers(config_) || !needs_choosers(config)) return config;
  return Error{ErrorKind::kUnsupported,
               "[launcher] a row's own settings: found options that the host has to apply, expected those of the "
               "graphs; give the option to all rows"};
}

Result<Request> RowRequests::prepare(size_t index, const JobRow& row) const {
  LOCKSTEP_TRY(Prompt prompt, prompt_of(row));
  LOCKSTEP_TRY(GenerationConfig config, config_of(row));
  const bool own_seed = row.generation.contains("seed");
  const uint64_t first_answer = index * static_cast<uint64_t>(config_.num_return_sequences);
  return Request{.prompt = std::move(prompt), .config = std::move(config), .random_row = own_seed ? 0 : first_answer};
}

}  // namespace lockstep::launcher
