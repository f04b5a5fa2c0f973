#include "launcher/batch/row_requests.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <ctime>

#include "runtime/generation/choosers.h"

namespace lockstep::launcher {

Result<std::unique_ptr<RowRequests>> RowRequests::make(const GenerateCommand& command,
                                                       const checkpoint::ModelSpec& spec, const Clock& clock,
                                                       bool needs_tokenizer) {
  std::unique_ptr<RowRequests> made(new RowRequests(command, spec, clock));
  LOCKSTEP_TRY_VOID(made->load(needs_tokenizer));
  return made;
}

Result<void> RowRequests::load(bool needs_tokenizer) {
  LOCKSTEP_TRY(config_, generation_of(command_, spec_, warnings_));
  by_host_ = !host_options_of(config_).empty();
  LOCKSTEP_TRY_VOID(check_options());
  auto tokenizer = text::load_tokenizer(command_.model.model);
  const bool needed = needs_tokenizer || !config_.stop_strings.empty() || !command_.negative_prompts.empty();
  if (tokenizer.has_value()) {
    tokenizer_ = std::move(tokenizer).value();
  } else if (tokenizer.error().kind != ErrorKind::kNotFound || needed) {
    return tokenizer.error();
  }
  if (command_.chat) {
    LOCKSTEP_TRY(chat_, text::load_chat(command_.model.model));
  }
  if (command_.negative_prompts.empty()) return ok();
  LOCKSTEP_TRY(negative_, tokenizer_->encode(command_.negative_prompts.front(), text::SpecialTokens::kAdd));
  return ok();
}

Result<void> RowRequests::check_options() const {
  if (config_.max_time) {
    return contradiction("max_time and --prompts-file", "rows that end by their tokens: leave the time limit out");
  }
  if (command_.negative_prompts.size() > 1) {
    return contradiction(fmt::format("{} negative prompts and --prompts-file", command_.negative_prompts.size()),
                         "one for all rows");
  }
  if (!command_.negative_prompts.empty() && config_.guidance_scale == 1.0) {
    return contradiction("a negative prompt without guidance",
                         "--guidance-scale other than 1; add it or leave both out");
  }
  return ok();
}

RequestSource RowRequests::source(const generation::GenerationConfig& config) const {
  return {.config = config, .spec = spec_, .clock = clock_, .tokenizer = tokenizer_.get(), .by_host = by_host_};
}

TokenWish RowRequests::wish(const JobRow& row) const {
  TokenWish wish = token_wish(command_, config_);
  if (row.max_new_tokens) wish.max_new_tokens = row.max_new_tokens;
  return wish;
}

Result<int64_t> RowRequests::widest() const {
  if (!by_host_) return int64_t{1};
  LOCKSTEP_TRY(const auto requests, make_requests(source(config_), {.ids = {0}, .negative = negative_, .text = {}}, 1,
                                                  {.id = 0, .random_row = 0}));
  return requests.front().request.chooser->rows();
}

Result<Prompt> RowRequests::prompt(const JobRow& row) const {
  Prompt prompt{.ids = row.ids, .negative = negative_, .text = row.prompt};
  if (!prompt.ids.empty()) return prompt;
  std::string text = row.prompt;
  if (chat_) {
    const auto now = static_cast<std::time_t>(unix_time_);
    std::tm local{};
    localtime_r(&now, &local);
    const std::vector<text::Message> question = {{"user", row.prompt}};
    LOCKSTEP_TRY(text, chat_->chat_template->render(row.messages.empty() ? question : row.messages,
                                                    {.add_generation_prompt = true,
                                                     .bos_token = chat_->bos_token,
                                                     .eos_token = chat_->eos_token,
                                                     .now = local}));
  }
  // A template writes the special tokens itself.
  LOCKSTEP_TRY(prompt.ids, tokenizer_->encode(text, chat_ ? text::SpecialTokens::kOmit : text::SpecialTokens::kAdd));
  if (!prompt.ids.empty()) return prompt;
  return Error{ErrorKind::kInvalidArgument, "[launcher] a prompt has no tokens; expected at least one"};
}

int64_t RowRequests::wanted_capacity(const JobRow& row, const Prompt& prompt) const {
  return launcher::wanted_capacity(wish(row), prompt, spec_.max_positions);
}

Result<generation::GenerationConfig> RowRequests::config_of(const JobRow& row) const {
  generation::GenerationConfig config = config_;
  for (const auto& [name, value] : row.generation) LOCKSTEP_TRY_VOID(config.set(name, value));
  if (row.stop_strings) config.stop_strings = *row.stop_strings;
  LOCKSTEP_TRY_VOID(config.validate());
  const std::vector<std::string_view> by_host = generation::host_choices(config);
  if (by_host_ || by_host.empty()) return config;
  return Error{ErrorKind::kUnsupported,
               fmt::format("[launcher] a row's own settings: found {}, which the host has to apply, expected those of "
                           "the graphs; give the option to all rows",
                           fmt::join(by_host, ", "))};
}

Result<PreparedRow> RowRequests::prepare(size_t index, const JobRow& row, int64_t capacity) const {
  LOCKSTEP_TRY(const Prompt made, prompt(row));
  LOCKSTEP_TRY(const generation::GenerationConfig config, config_of(row));
  LOCKSTEP_TRY_VOID(check_prompt(made, index, spec_.vocabulary, capacity));
  LOCKSTEP_TRY(const int32_t budget, budget_of(wish(row), made, index, capacity));
  const size_t first = index * answers_of_row();
  const bool own_seed = row.generation.contains("seed");
  LOCKSTEP_TRY(auto requests,
               make_requests(source(config), made, budget, {.id = first, .random_row = own_seed ? 0 : first}));
  return PreparedRow{std::move(requests), config.stop_strings};
}

}  // namespace lockstep::launcher
