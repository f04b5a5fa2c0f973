#include "engine/requests/sizing.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "lockstep/engine.h"

namespace lockstep {
namespace {

constexpr int64_t kMostDefaultSlots = 8;

}  // namespace

namespace requests {
namespace {

Error bad_prompt(const std::string& found, const std::string& expected) {
  return {ErrorKind::kInvalidArgument,
          fmt::format("[engine/requests] cannot take the prompt: found {}, expected {}; correct it", found, expected)};
}

Error does_not_fit(int64_t length, std::string_view option, int64_t value, const std::string& expected) {
  return {ErrorKind::kInvalidArgument,
          fmt::format("[engine/requests] the prompt does not fit: found {} tokens and {} {}, expected {}", length,
                      option, value, expected)};
}

/// The requested number of new tokens; empty: as many as fit.
std::optional<int64_t> asked_tokens(const GenerationConfig& config, const Prompt& prompt) {
  if (config.max_new_tokens) return *config.max_new_tokens;
  if (config.max_length) return *config.max_length - std::ssize(prompt.ids);
  return std::nullopt;
}

}  // namespace

int64_t longer_length(const Prompt& prompt) { return std::max(std::ssize(prompt.ids), std::ssize(prompt.negative)); }

int64_t rows_of(const GenerationConfig& config) {
  if (config.num_beams > 1) return config.num_beams;
  return config.guidance_scale != 1.0 ? 2 : 1;
}

int64_t wanted_capacity(const GenerationConfig& config, const Prompt& prompt, int64_t most) {
  const int64_t longer = longer_length(prompt);
  const std::optional<int64_t> asked = asked_tokens(config, prompt);
  return std::max(longer, asked ? longer + *asked - 1 : most);
}

Result<int32_t> budget_of(const GenerationConfig& config, LengthFrom from, const Prompt& prompt, int64_t capacity) {
  const int64_t room = capacity - longer_length(prompt) + 1;
  if (from == LengthFrom::kCaller && config.max_new_tokens && *config.max_new_tokens > room) {
    return does_not_fit(longer_length(prompt), "--max-new-tokens", *config.max_new_tokens,
                        fmt::format("at most {} together (the capacity of a slot, and the last token); shorten the "
                                    "prompt, lower --max-new-tokens or raise --max-seq-len",
                                    capacity + 1));
  }
  const int64_t asked = asked_tokens(config, prompt).value_or(room);
  if (asked >= 1) return static_cast<int32_t>(std::min(asked, room));
  const bool is_files = from == LengthFrom::kFile;
  return does_not_fit(std::ssize(prompt.ids), is_files ? "the model's max_length" : "--max-length",
                      config.max_length.value_or(0), "a length beyond the prompt's; raise it, or set --max-new-tokens");
}

Result<void> check_prompt(const Prompt& prompt, int64_t vocabulary, int64_t capacity) {
  if (prompt.ids.empty()) return bad_prompt("no tokens", "at least one");
  for (const std::vector<int32_t>* list : {&prompt.ids, &prompt.negative}) {
    const int32_t least = list == &prompt.ids && !prompt.embeddings.empty() ? kEmbedded : 0;
    const auto outside = std::ranges::find_if(*list, [&](int32_t id) { return id < least || id >= vocabulary; });
    if (outside == list->end()) continue;
    return bad_prompt(fmt::format("token id {}", *outside),
                      fmt::format("ids of 0 to {} (the vocabulary)", vocabulary - 1));
  }
  const int64_t longer = longer_length(prompt);
  if (longer <= capacity) return ok();
  return Error{ErrorKind::kInvalidArgument,
               fmt::format("[engine/requests] the prompt does not fit: found {} tokens, expected at most {} (the "
                           "capacity of a slot); shorten it or raise --max-seq-len",
                           longer, capacity)};
}

Result<void> check_masked(const Prompt& prompt, int32_t budget, const ModelSpec& spec) {
  if (prompt.masked_inside == 0) return ok();
  const int64_t tokens = std::ssize(prompt.ids) + prompt.masked_inside + budget - 1;  // the last is never attended to
  const auto refuse_beyond = [&](int64_t most, std::string_view what) -> Result<void> {
    if (tokens <= most) return ok();
    return Error{ErrorKind::kUnsupported,
                 fmt::format("[engine/requests] the prompt: found {} masked tokens inside and up to {} tokens in all, "
                             "expected at most {} ({} of {}, which counts masked tokens); omit them, or lower "
                             "--max-new-tokens",
                             prompt.masked_inside, tokens, most, what, spec.model_type)};
  };
  for (const int64_t window : spec.windows) {
    if (window > 0) LOCKSTEP_TRY_VOID(refuse_beyond(window, "the window"));
  }
  if (spec.rope.kind != checkpoint::RopeSpec::Kind::kLongrope) return ok();
  return refuse_beyond(spec.rope.original_max_positions.value_or(spec.max_positions), "the first rope's length");
}

Error contradiction(const std::string& found, std::string_view expected) {
  return {ErrorKind::kInvalidArgument,
          fmt::format("[engine/requests] options contradict each other: found {}, expected {}", found, expected)};
}

Result<Drafting> drafting_of(const GenerationConfig& config, const Drafting& options) {
  const bool looks_up = config.prompt_lookup_num_tokens.has_value();
  if (!looks_up && !options.model) return Drafting{};
  if (looks_up && options.model) {
    return contradiction("--draft-model and prompt_lookup_num_tokens", "one of them; omit the other");
  }
  if (const auto by_host = generation::host_choices(config); !by_host.empty()) {
    return contradiction(fmt::format("drafts and {}", fmt::join(by_host, ", ")),
                         "greedy or sampled rows whose tokens the graphs choose; omit one or the other");
  }
  if (config.output_logits) {
    return contradiction("drafts and --output-logits", "one of them: a step that verifies drafts returns no logits");
  }
  Drafting drafting = options;
  drafting.tokens = looks_up ? *config.prompt_lookup_num_tokens : config.num_assistant_tokens;
  drafting.lookup_ngram = looks_up ? config.max_matching_ngram_size : 0;
  return drafting;
}

}  // namespace requests

Result<void> Sizing::add(const Prompt& prompt, const GenerationConfig& config) {
  const std::optional<int64_t> most = model_->longest_sequence();
  if (!most || requests::longer_length(prompt) <= *most) {
    const int64_t wanted = requests::wanted_capacity(config, prompt, model_->spec().max_positions);
    capacity_ = std::max(capacity_, most ? std::min(wanted, *most) : wanted);
  }
  const int64_t widest = requests::rows_of(config);
  rows_ += config.num_beams > 1 ? widest : widest * config.num_return_sequences;
  widest_ = std::max(widest_, widest);
  LOCKSTEP_TRY(options_.drafting, requests::drafting_of(config, options_.drafting));
  return ok();
}

Result<EngineOptions> Sizing::options() const {
  EngineOptions options = options_;
  if (!options.capacity) options.capacity = capacity_;
  if (!options.slots) options.slots = std::max(widest_, std::min(rows_, kMostDefaultSlots));
  if (*options.slots >= widest_) return options;
  return Error{
      ErrorKind::kInvalidArgument,
      fmt::format("[engine/requests] --batch-size: found {}, expected at least {} (the rows of one prompt: beams, or a "
                  "negative prompt beside it); raise it or omit it",
                  *options.slots, widest_)};
}

Result<EngineOptions> sized_for(const Model& model, std::span<const Prompt> prompts, const GenerationConfig& config,
                                EngineOptions options) {
  Sizing sizing(model, std::move(options));
  for (const Prompt& prompt : prompts) LOCKSTEP_TRY_VOID(sizing.add(prompt, config));
  return sizing.options();
}

bool needs_choosers(const GenerationConfig& config) {
  return config.output_logits || generation::needs_host_choice(config);
}

}  // namespace lockstep
