#include "runtime/generation/generation_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

namespace lockstep::generation {
namespace {

Error invalid(std::string_view option, const std::string& found, std::string_view expected) {
  return {ErrorKind::kInvalidArgument,
          fmt::format("[runtime/generation] {}: found {}, expected {}", option, found, expected)};
}

std::string shown(double value) { return fmt::format("{:g}", value); }
std::string shown(int32_t value) { return std::to_string(value); }

// Comparisons are written so that NaN fails them.

Result<void> check_share(std::string_view option, double value) {
  return value > 0 && value <= 1 ? Result<void>(ok()) : invalid(option, shown(value), "above 0 and at most 1");
}

Result<void> check_cutoff(std::string_view option, double value) {
  return value >= 0 && value < 1 ? Result<void>(ok()) : invalid(option, shown(value), "0 (off) or more and below 1");
}

Result<void> check_factor(std::string_view option, double value) {
  if (value > 0 && std::isfinite(value)) return ok();
  return invalid(option, shown(value), "a number above 0 (1: none)");
}

Result<void> check_at_least(std::string_view option, std::optional<int32_t> value, int32_t least) {
  if (!value || *value >= least) return ok();
  return invalid(option, shown(*value), fmt::format("at least {}", least));
}

Result<void> check_ids(std::string_view option, std::span<const int32_t> ids) {
  const auto wrong = std::ranges::find_if(ids, [](int32_t id) { return id < 0; });
  return wrong == ids.end() ? Result<void>(ok()) : invalid(option, shown(*wrong), "0 or more");
}

Result<void> check_draw(const GenerationConfig& config) {
  if (!(config.temperature > 0) || !std::isfinite(config.temperature)) {
    return invalid("temperature", shown(config.temperature),
                   "a number above 0; for the likeliest token use do_sample=false");
  }
  if (config.top_k < 0) return invalid("top_k", shown(config.top_k), "0 (all tokens) or more");
  LOCKSTEP_TRY_VOID(check_share("top_p", config.top_p));
  LOCKSTEP_TRY_VOID(check_share("typical_p", config.typical_p));
  LOCKSTEP_TRY_VOID(check_share("top_h", config.top_h.value_or(1.0)));
  if (!(config.min_p >= 0 && config.min_p <= 1)) return invalid("min_p", shown(config.min_p), "0 to 1");
  LOCKSTEP_TRY_VOID(check_cutoff("epsilon_cutoff", config.epsilon_cutoff));
  return check_cutoff("eta_cutoff", config.eta_cutoff);
}

Result<void> check_scores(const GenerationConfig& config) {
  LOCKSTEP_TRY_VOID(check_factor("repetition_penalty", config.repetition_penalty));
  LOCKSTEP_TRY_VOID(check_factor("encoder_repetition_penalty", config.encoder_repetition_penalty));
  if (!std::isfinite(config.guidance_scale)) {
    return invalid("guidance_scale", shown(config.guidance_scale), "a finite number (1: none)");
  }
  LOCKSTEP_TRY_VOID(check_at_least("no_repeat_ngram_size", config.no_repeat_ngram_size, 0));
  LOCKSTEP_TRY_VOID(check_at_least("encoder_no_repeat_ngram_size", config.encoder_no_repeat_ngram_size, 0));
  for (const BiasedSequence& biased : config.sequence_bias) {
    if (biased.ids.empty()) return invalid("sequence_bias", "an empty sequence", "sequences of at least one id");
    LOCKSTEP_TRY_VOID(check_ids("sequence_bias", biased.ids));
    if (std::isnan(biased.bias)) return invalid("sequence_bias", "a bias that is no number", "a number");
  }
  for (const std::vector<int32_t>& word : config.bad_words_ids) {
    if (word.empty()) return invalid("bad_words_ids", "an empty sequence", "sequences of at least one id");
    LOCKSTEP_TRY_VOID(check_ids("bad_words_ids", word));
  }
  LOCKSTEP_TRY_VOID(check_ids("suppress_tokens", config.suppress_tokens));
  LOCKSTEP_TRY_VOID(check_ids("begin_suppress_tokens", config.begin_suppress_tokens));
  const auto& decay = config.exponential_decay_length_penalty;
  if (decay && !std::isfinite(decay->factor)) {
    return invalid("exponential_decay_length_penalty", shown(decay->factor), "a finite factor");
  }
  return ok();
}

Result<void> check_watermark(const Watermark& watermark) {
  constexpr int64_t kMostKey = std::numeric_limits<uint32_t>::max();
  if (!(watermark.green_share > 0 && watermark.green_share < 1)) {
    return invalid("watermarking_config.greenlist_ratio", shown(watermark.green_share), "above 0 and below 1");
  }
  if (!std::isfinite(watermark.bias)) {
    return invalid("watermarking_config.bias", shown(watermark.bias), "a finite number");
  }
  if (watermark.hashing_key < 0 || watermark.hashing_key > kMostKey) {
    return invalid("watermarking_config.hashing_key", std::to_string(watermark.hashing_key),
                   fmt::format("0 to {}", kMostKey));
  }
  return check_at_least("watermarking_config.context_width", watermark.context, 1);
}

Result<void> check_ends(const GenerationConfig& config) {
  LOCKSTEP_TRY_VOID(check_at_least("max_new_tokens", config.max_new_tokens, 1));
  LOCKSTEP_TRY_VOID(check_at_least("max_length", config.max_length, 1));
  LOCKSTEP_TRY_VOID(check_at_least("min_new_tokens", config.min_new_tokens, 0));
  LOCKSTEP_TRY_VOID(check_at_least("min_length", config.min_length, 0));
  if (config.max_new_tokens && config.min_new_tokens > *config.max_new_tokens) {
    return invalid("min_new_tokens", shown(config.min_new_tokens),
                   fmt::format("at most max_new_tokens, which is {}", *config.max_new_tokens));
  }
  if (config.max_length && config.min_length > *config.max_length) {
    return invalid("min_length", shown(config.min_length),
                   fmt::format("at most max_length, which is {}", *config.max_length));
  }
  if (std::ssize(config.eos_token_ids) > sampling::kMaxEosIds) {
    return invalid("eos_token_id", fmt::format("{} ids", config.eos_token_ids.size()),
                   fmt::format("at most {}", sampling::kMaxEosIds));
  }
  LOCKSTEP_TRY_VOID(check_ids("eos_token_id", config.eos_token_ids));
  LOCKSTEP_TRY_VOID(check_ids("forced_eos_token_id", config.forced_eos_token_ids));
  LOCKSTEP_TRY_VOID(check_at_least("forced_bos_token_id", config.forced_bos_token_id, 0));
  LOCKSTEP_TRY_VOID(check_at_least("pad_token_id", config.pad_token_id, 0));
  for (const std::string& stop : config.stop_strings) {
    if (stop.empty()) return invalid("stop_strings", "an empty string", "strings of at least one character");
  }
  if (config.max_time && !(*config.max_time > 0)) {
    return invalid("max_time", shown(*config.max_time), "seconds above 0");
  }
  return ok();
}

Result<void> check_counts(const GenerationConfig& config) {
  LOCKSTEP_TRY_VOID(check_at_least("num_beams", config.num_beams, 1));
  LOCKSTEP_TRY_VOID(check_at_least("num_return_sequences", config.num_return_sequences, 1));
  LOCKSTEP_TRY_VOID(check_at_least("num_assistant_tokens", config.num_assistant_tokens, 1));
  LOCKSTEP_TRY_VOID(check_at_least("prompt_lookup_num_tokens", config.prompt_lookup_num_tokens, 1));
  LOCKSTEP_TRY_VOID(check_at_least("max_matching_ngram_size", config.max_matching_ngram_size, 1));
  LOCKSTEP_TRY_VOID(check_at_least("top_logprobs", config.top_logprobs, 0));
  if (std::isfinite(config.length_penalty)) return ok();
  return invalid("length_penalty", shown(config.length_penalty), "a finite number");
}

/// Options that cannot be together.
Result<void> check_together(const GenerationConfig& config) {
  const bool has_beams = config.num_beams > 1;
  const std::string beams = fmt::format("num_beams={}", config.num_beams);
  const std::string returned = fmt::format("num_return_sequences={}", config.num_return_sequences);
  if (has_beams && config.num_return_sequences > config.num_beams) {
    return invalid("num_return_sequences", returned + " with " + beams, "at most num_beams");
  }
  if (!has_beams && !config.do_sample && config.num_return_sequences > 1) {
    return invalid("num_return_sequences", returned + " of a greedy search", "1, or do_sample=true, or num_beams");
  }
  if (has_beams && config.guidance_scale != 1.0) {
    return invalid("guidance_scale", shown(config.guidance_scale) + " with " + beams, "1 with beams, or num_beams=1");
  }
  if (config.prompt_lookup_num_tokens && (has_beams || config.num_return_sequences > 1)) {
    return invalid("prompt_lookup_num_tokens", "prompt lookup with " + (has_beams ? beams : returned),
                   "num_beams=1 and num_return_sequences=1");
  }
  const auto is_suppressed = [&](int32_t id) {
    return std::ranges::find(config.suppress_tokens, id) != config.suppress_tokens.end();
  };
  if (config.forced_bos_token_id && is_suppressed(*config.forced_bos_token_id)) {
    return invalid("suppress_tokens", fmt::format("forced_bos_token_id {}", *config.forced_bos_token_id),
                   "ids that are not forced");
  }
  if (!config.forced_eos_token_ids.empty() && std::ranges::all_of(config.forced_eos_token_ids, is_suppressed)) {
    return invalid("suppress_tokens", "every forced_eos_token_id", "ids that are not forced");
  }
  return ok();
}

}  // namespace

Result<void> GenerationConfig::validate() const {
  LOCKSTEP_TRY_VOID(check_draw(*this));
  LOCKSTEP_TRY_VOID(check_scores(*this));
  if (watermarking_config) LOCKSTEP_TRY_VOID(check_watermark(*watermarking_config));
  LOCKSTEP_TRY_VOID(check_ends(*this));
  LOCKSTEP_TRY_VOID(check_counts(*this));
  return check_together(*this);
}

Result<void> GenerationConfig::validate_streaming() const {
  LOCKSTEP_TRY_VOID(validate());
  if (num_beams == 1) return ok();
  return invalid("num_beams", std::to_string(num_beams) + " while tokens are streamed",
                 "1: which beam wins is known at the end only; set num_beams=1 or do not stream");
}

sampling::Parameters GenerationConfig::sampling(uint64_t row) const {
  sampling::Parameters parameters;
  parameters.seed = sampling::row_seed(seed, row);
  parameters.repetition_penalty = static_cast<float>(repetition_penalty);
  if (!do_sample) return parameters;
  parameters.do_sample = true;
  parameters.temperature = static_cast<float>(temperature);
  parameters.top_k = top_k;
  parameters.top_p = static_cast<float>(top_p);
  parameters.min_p = static_cast<float>(min_p);
  parameters.typical_p = static_cast<float>(typical_p);
  parameters.epsilon_cutoff = static_cast<float>(epsilon_cutoff);
  parameters.eta_cutoff = static_cast<float>(eta_cutoff);
  return parameters;
}

int32_t GenerationConfig::least_new_tokens(int64_t prompt_length) const {
  return static_cast<int32_t>(std::max<int64_t>({0, min_new_tokens, min_length - prompt_length}));
}

}  // namespace lockstep::generation
