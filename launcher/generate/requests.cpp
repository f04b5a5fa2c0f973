#include "launcher/generate/requests.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "launcher/ranks/serving_spec.h"
#include "runtime/generation/choosers.h"

namespace lockstep::launcher {
namespace {

constexpr int64_t kMostDefaultSlots = 8;

/// Warns of what generation_config.json says and we do not know, but for notes that change no answer.
void warn_of(const std::vector<std::string>& ignored, std::vector<std::string>& warnings) {
  static constexpr std::string_view kNotes[] = {"_from_model_config", "transformers_version", "cache_implementation",
                                                "use_cache"};
  for (const std::string& name : ignored) {
    if (std::ranges::find(kNotes, name) != std::end(kNotes)) continue;
    warnings.push_back(fmt::format("generation_config.json: {} is not known and was ignored", name));
  }
}

Error does_not_fit(size_t row, int64_t length, std::string_view option, int64_t value, std::string_view expected) {
  return {ErrorKind::kInvalidArgument,
          fmt::format("[launcher] prompt {} does not fit: found {} tokens and {} {}, expected {}", row, length, option,
                      value, expected)};
}

shards::SlotParameters parameters(const RequestSource& source, const Prompt& prompt, int32_t budget, uint64_t row) {
  const std::vector<int32_t>& eos = source.config.eos_token_ids;
  return {.sampling = source.config.sampling(row),
          .max_new_tokens = budget,
          .eos_ids = eos,
          .pad_id = source.config.pad_token_id.value_or(eos.empty() ? 0 : eos.front()),
          .min_new_tokens = source.config.least_new_tokens(static_cast<int64_t>(prompt.ids.size()))};
}

Result<std::shared_ptr<generation::TokenChooser>> chooser(const RequestSource& source, const Prompt& prompt,
                                                          int32_t budget, uint64_t row) {
  generation::ChooserRequest request{.config = source.config,
                                     .prompt = prompt.ids,
                                     .negative_prompt = prompt.negative,
                                     .vocabulary = source.spec.vocabulary,
                                     .max_length = static_cast<int64_t>(prompt.ids.size()) + budget,
                                     .row = row,
                                     .clock = &source.clock,
                                     .tokenizer = source.config.num_beams > 1 ? source.tokenizer : nullptr};
  LOCKSTEP_TRY(std::unique_ptr<generation::TokenChooser> made, generation::make_chooser(std::move(request)));
  return std::shared_ptr<generation::TokenChooser>(std::move(made));  // the session keeps it as well
}

}  // namespace

Result<generation::GenerationConfig> generation_of(const GenerateCommand& command, const checkpoint::ModelSpec& spec,
                                                   std::vector<std::string>& warnings) {
  LOCKSTEP_TRY(generation::LoadedConfig loaded, generation::read_generation_config(command.model.model));
  generation::GenerationConfig& config = loaded.config;
  if (config.eos_token_ids.empty()) config.eos_token_ids = spec.eos_ids;
  if (!config.pad_token_id) config.pad_token_id = spec.pad_id;
  for (const auto& [name, value] : command.generation) LOCKSTEP_TRY_VOID(config.set(name, value));
  if (command.ignore_eos) config.eos_token_ids.clear();
  if (!command.stop_strings.empty()) config.stop_strings = command.stop_strings;
  config.output_scores = command.output_scores.has_value();
  config.output_logits = command.output_logits.has_value();
  LOCKSTEP_TRY_VOID(config.validate());
  warn_of(loaded.ignored, warnings);
  return std::move(loaded.config);
}

std::vector<std::string_view> host_options_of(const generation::GenerationConfig& config) {
  std::vector<std::string_view> options = generation::host_choices(config);
  if (config.output_scores) options.push_back("--output-scores");
  if (config.top_logprobs > 0) options.push_back("top_logprobs");
  return options;
}

Error contradiction(const std::string& found, std::string_view expected) {
  return {ErrorKind::kInvalidArgument,
          fmt::format("[launcher] options contradict each other: found {}, expected {}", found, expected)};
}

std::optional<int64_t> TokenWish::of(int64_t length) const {
  if (max_new_tokens) return *max_new_tokens;
  if (max_length) return *max_length - length;
  if (file_max_new_tokens) return *file_max_new_tokens;
  if (file_max_length) return *file_max_length - length;
  return std::nullopt;
}

TokenWish token_wish(const GenerateCommand& command, const generation::GenerationConfig& config) {
  const bool is_option = command.generation.contains("max_length");
  return {.max_new_tokens = command.max_new_tokens,
          .max_length = is_option ? config.max_length : std::nullopt,
          .file_max_new_tokens = config.max_new_tokens,
          .file_max_length = is_option ? std::nullopt : config.max_length};
}

int64_t longer_length(const Prompt& prompt) { return std::max(std::ssize(prompt.ids), std::ssize(prompt.negative)); }

int64_t wanted_capacity(const TokenWish& wish, const Prompt& prompt, int64_t most) {
  const int64_t longer = longer_length(prompt);
  const std::optional<int64_t> asked = wish.of(std::ssize(prompt.ids));
  return std::max(longer, asked ? longer + *asked - 1 : most);
}

Result<std::optional<int64_t>> asked_capacity(const GenerateCommand& command, const checkpoint::ModelSpec& spec) {
  const std::optional<int64_t> most = longest_sequence(spec), asked = command.model.max_seq_len;
  if (!asked || !most || *asked <= *most) return asked;
  return Error{ErrorKind::kInvalidArgument,
               fmt::format("[launcher] --max-seq-len: found {}, expected at most {} (max_position_embeddings of the "
                           "model); lower it",
                           *asked, *most)};
}

Result<int32_t> budget_of(const TokenWish& wish, const Prompt& prompt, size_t row, int64_t capacity) {
  const int64_t room = capacity - longer_length(prompt) + 1;
  if (wish.max_new_tokens && *wish.max_new_tokens > room) {
    return does_not_fit(row, longer_length(prompt), "--max-new-tokens", *wish.max_new_tokens,
                        fmt::format("at most {} together (the capacity of a slot, and the last token); shorten the "
                                    "prompt, lower --max-new-tokens or raise --max-seq-len",
                                    capacity + 1));
  }
  const int64_t asked = wish.of(std::ssize(prompt.ids)).value_or(room);
  if (asked >= 1) return static_cast<int32_t>(std::min(asked, room));
  return does_not_fit(row, std::ssize(prompt.ids),
                      wish.max_length ? "--max-length" : "the max_length of generation_config.json",
                      wish.max_length ? *wish.max_length : wish.file_max_length.value_or(0),
                      "a length beyond the prompt's; raise it, or give --max-new-tokens");
}

Result<void> check_masked(const Prompt& prompt, size_t row, int32_t budget, const checkpoint::ModelSpec& spec) {
  if (prompt.masked_inside == 0) return ok();
  const int64_t tokens = std::ssize(prompt.ids) + prompt.masked_inside + budget - 1;  // the last is never attended to
  const auto refuse_beyond = [&](int64_t most, std::string_view what) -> Result<void> {
    if (tokens <= most) return ok();
    return Error{
        ErrorKind::kUnsupported,
        fmt::format("[launcher] prompt {}: found {} masked tokens inside and up to {} tokens in all, expected at "
                    "most {} ({} of {}, which counts masked tokens); leave them out, or lower --max-new-tokens",
                    row, prompt.masked_inside, tokens, most, what, spec.model_type)};
  };
  for (const int64_t window : spec.windows) {
    if (window > 0) LOCKSTEP_TRY_VOID(refuse_beyond(window, "the window"));
  }
  if (spec.rope.kind != checkpoint::RopeSpec::Kind::kLongrope) return ok();
  return refuse_beyond(spec.rope.original_max_positions.value_or(spec.max_positions), "the first rope's length");
}

Result<void> plan_drafts(const GenerateCommand& command, const generation::GenerationConfig& config,
                         const std::vector<std::string_view>& host_options, JobSizes& sizes) {
  const bool looks_up = config.prompt_lookup_num_tokens.has_value();
  if (!looks_up && !command.draft_model) return ok();
  if (looks_up && command.draft_model) {
    return contradiction("--draft-model and prompt_lookup_num_tokens", "one of them; leave the other out");
  }
  if (!host_options.empty()) {
    return contradiction(fmt::format("drafts and {}", fmt::join(host_options, ", ")),
                         "greedy or sampled rows whose tokens the graphs choose; leave one or the other out");
  }
  if (command.output_logits) {
    return contradiction("drafts and --output-logits", "one of them: a step that verifies drafts gives no logits away");
  }
  sizes.drafts = looks_up ? *config.prompt_lookup_num_tokens : config.num_assistant_tokens;
  sizes.ngram = looks_up ? config.max_matching_ngram_size : 0;
  return ok();
}

Result<std::vector<JobRequest>> make_requests(const RequestSource& source, const Prompt& prompt, int32_t budget,
                                              FirstAnswer first) {
  const bool beams = source.config.num_beams > 1;
  const auto answers = static_cast<size_t>(source.config.num_return_sequences);
  std::vector<JobRequest> requests;
  for (size_t copy = 0; copy < (beams ? 1 : answers); ++copy) {
    const uint64_t random_row = first.random_row + copy;
    JobRequest made{.request = {.id = RequestId(static_cast<int64_t>(first.id + copy)),
                                .ids = prompt.ids,
                                .parameters = parameters(source, prompt, budget, random_row)},
                    .answers = beams ? answers : 1};
    made.request.logits = source.wants_logits && !source.by_host ? actors::Logits::kWanted : actors::Logits::kOmit;
    if (source.by_host) {
      LOCKSTEP_TRY(made.request.chooser, chooser(source, prompt, budget, random_row));
    }
    requests.push_back(std::move(made));
  }
  return requests;
}

Result<int64_t> slots_of(const GenerateCommand& command, int64_t rows, int64_t widest) {
  const int64_t slots = command.model.batch_size.value_or(std::max(widest, std::min(rows, kMostDefaultSlots)));
  if (slots >= widest) return slots;
  return Error{
      ErrorKind::kInvalidArgument,
      fmt::format("[launcher] --batch-size: found {}, expected at least {} (the rows of one prompt: beams, or a "
                  "negative prompt beside it); raise it or leave it out",
                  slots, widest)};
}

}  // namespace lockstep::launcher
