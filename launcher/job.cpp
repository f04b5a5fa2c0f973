#include "launcher/job.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <sstream>

#include "runtime/generation/generation_config.h"
#include "runtime/text/chat_template.h"

namespace lockstep::launcher {
namespace {

constexpr int64_t kMostDefaultSlots = 8;

/// What templates print as the current date.
std::tm local_time() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  return local;
}

bool needs_tokenizer(const GenerateCommand& command) {
  return !command.prompts.ids_file || !command.stop_strings.empty() || command.chat;
}

/// The tokenizer; rows of ids can do without.
Result<std::unique_ptr<text::Tokenizer>> tokenizer_of(const GenerateCommand& command) {
  auto tokenizer = text::load_tokenizer(command.model.model);
  if (!tokenizer.has_value() && tokenizer.error().kind == ErrorKind::kNotFound && !needs_tokenizer(command)) {
    return std::unique_ptr<text::Tokenizer>();
  }
  return tokenizer;
}

Result<std::vector<Prompt>> prompts_of(const GenerateCommand& command, const text::Tokenizer* tokenizer) {
  if (!command.chat) return read_prompts(command.prompts, tokenizer, text::SpecialTokens::kAdd, {});
  if (command.prompts.ids_file) {
    return Error{ErrorKind::kInvalidArgument,
                 "[launcher] --chat: found --ids-file, expected --prompt or --prompt-file; "
                 "leave --chat away"};
  }
  LOCKSTEP_TRY(const text::ModelChat chat, text::load_chat(command.model.model));
  const auto wrap = [&](const std::string& prompt) {
    return chat.chat_template->render(
        {{"user", prompt}},
        {.add_generation_prompt = true, .bos_token = chat.bos_token, .eos_token = chat.eos_token, .now = local_time()});
  };
  // A template writes the special tokens itself.
  return read_prompts(command.prompts, tokenizer, text::SpecialTokens::kOmit, wrap);
}

/// generation_config.json, the ids of config.json where it has none, and the options on top.
Result<generation::GenerationConfig> generation_of(const GenerateCommand& command, const checkpoint::ModelSpec& spec,
                                                   std::vector<std::string>& warnings) {
  LOCKSTEP_TRY(generation::LoadedConfig loaded, generation::read_generation_config(command.model.model));
  generation::GenerationConfig& config = loaded.config;
  if (config.eos_token_ids.empty()) config.eos_token_ids = spec.eos_ids;
  if (!config.pad_token_id) config.pad_token_id = spec.pad_id;
  for (const auto& [name, value] : command.generation) LOCKSTEP_TRY_VOID(config.set(name, value));
  if (command.ignore_eos) config.eos_token_ids.clear();
  LOCKSTEP_TRY_VOID(config.validate());
  for (const std::string& name : loaded.ignored) {
    static constexpr std::string_view kHarmless[] = {"_from_model_config", "transformers_version",
                                                     "cache_implementation", "use_cache", "max_length"};
    if (std::find(std::begin(kHarmless), std::end(kHarmless), name) != std::end(kHarmless)) continue;
    warnings.push_back(fmt::format("generation_config.json: {} is not known and was ignored", name));
  }
  return std::move(loaded.config);
}

size_t longest_prompt(const std::vector<Prompt>& prompts) {
  size_t longest = 0;
  for (const Prompt& prompt : prompts) longest = std::max(longest, prompt.ids.size());
  return longest;
}

/// Tokens that a slot must hold: the last new token is never cached.
Result<int64_t> capacity_of(const GenerateCommand& command, const checkpoint::ModelSpec& spec, int64_t longest,
                            std::optional<int64_t> new_tokens) {
  const int64_t most = spec.max_positions;
  if (command.model.max_seq_len && *command.model.max_seq_len > most) {
    return Error{ErrorKind::kInvalidArgument,
                 fmt::format("[launcher] --max-seq-len: found {}, expected at most {} (max_position_embeddings of the "
                             "model)",
                             *command.model.max_seq_len, most)};
  }
  const int64_t wanted = new_tokens ? longest + *new_tokens - 1 : most;
  return command.model.max_seq_len.value_or(std::min(std::max(wanted, longest), most));
}

}  // namespace

Result<Job> prepare_job(const GenerateCommand& command, const checkpoint::ModelSpec& spec, JobSizes& sizes) {
  Job job;
  LOCKSTEP_TRY(const generation::GenerationConfig config, generation_of(command, spec, job.warnings));
  LOCKSTEP_TRY(job.tokenizer, tokenizer_of(command));
  LOCKSTEP_TRY(job.prompts, prompts_of(command, job.tokenizer.get()));
  if (job.prompts.empty()) {
    return Error{ErrorKind::kInvalidArgument, "[launcher] no prompts: found an empty list, expected at least one row"};
  }
  job.stop_strings = command.stop_strings.empty() ? config.stop_strings : command.stop_strings;
  if (config.max_time)
    job.max_time = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(*config.max_time));
  std::optional<int64_t> new_tokens = config.max_new_tokens;
  if (command.max_new_tokens) new_tokens = *command.max_new_tokens;
  const auto longest = static_cast<int64_t>(longest_prompt(job.prompts));
  LOCKSTEP_TRY(sizes.capacity, capacity_of(command, spec, longest, new_tokens));
  LOCKSTEP_TRY_VOID(check_prompts(job.prompts, spec.vocabulary, sizes.capacity));
  const auto rows = static_cast<int64_t>(job.prompts.size());
  sizes.slots = command.model.batch_size.value_or(std::min(rows, kMostDefaultSlots));

  for (size_t row = 0; row < job.prompts.size(); ++row) {
    const int64_t room = sizes.capacity - static_cast<int64_t>(job.prompts[row].ids.size()) + 1;
    if (command.max_new_tokens && *command.max_new_tokens > room) {
      return Error{
          ErrorKind::kInvalidArgument,
          fmt::format("[launcher] prompt {} does not fit: found {} tokens and --max-new-tokens {}, expected at "
                      "most {} together (the capacity of a slot, and the last token); shorten the prompt, lower "
                      "--max-new-tokens or raise --max-seq-len",
                      row, job.prompts[row].ids.size(), *command.max_new_tokens, sizes.capacity + 1)};
    }
    job.parameters.push_back(
        {.sampling = config.sampling(row),
         .max_new_tokens = static_cast<int32_t>(std::min(new_tokens.value_or(room), room)),
         .eos_ids = config.eos_token_ids,
         .pad_id = config.pad_token_id.value_or(config.eos_token_ids.empty() ? 0 : config.eos_token_ids.front())});
  }
  return job;
}

std::string to_text(const JobSizes& sizes) { return fmt::format("{} {}", sizes.slots, sizes.capacity); }

Result<JobSizes> parse_sizes(const std::string& text) {
  JobSizes sizes;
  std::istringstream stream(text);
  stream >> sizes.slots >> sizes.capacity;
  if (stream && sizes.slots >= 1 && sizes.capacity >= 1) return sizes;
  return Error{ErrorKind::kInternal, fmt::format("[launcher] cannot read the sizes of the job: found \"{}\"", text)};
}

}  // namespace lockstep::launcher
