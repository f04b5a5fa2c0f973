#include "runtime/generation/generation_config.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/generation/options.h"

namespace lockstep::generation {
namespace {

/// Checks that the lengths do not contradict each other.
Result<void> check_lengths(const GenerationConfig& config) {
  if (config.max_new_tokens && config.min_new_tokens && *config.min_new_tokens > *config.max_new_tokens) {
    return invalid_option("min_new_tokens", fmt::format("{}", *config.min_new_tokens),
                          fmt::format("at most max_new_tokens, which is {}", *config.max_new_tokens));
  }
  if (config.max_length && config.min_length > *config.max_length) {
    return invalid_option("min_length", fmt::format("{}", config.min_length),
                          fmt::format("at most max_length, which is {}", *config.max_length));
  }
  return ok();
}

/// Checks for combinations that are not possible.
Result<void> check_together(const GenerationConfig& config) {
  const bool has_beams = config.num_beams > 1;
  const std::string beams = fmt::format("num_beams={}", config.num_beams);
  const std::string returned = fmt::format("num_return_sequences={}", config.num_return_sequences);
  if (has_beams && config.num_return_sequences > config.num_beams) {
    return invalid_option("num_return_sequences", returned + " with " + beams, "at most num_beams");
  }
  if (!has_beams && !config.do_sample && config.num_return_sequences > 1) {
    return invalid_option("num_return_sequences", returned + " of a greedy search",
                          "1, or do_sample=true, or num_beams");
  }
  if (has_beams && config.guidance_scale != 1.0) {
    return invalid_option("guidance_scale", fmt::format("{:g} with {}", config.guidance_scale, beams),
                          "1 with beams, or num_beams=1");
  }
  if (config.prompt_lookup_num_tokens && (has_beams || config.num_return_sequences > 1)) {
    return invalid_option("prompt_lookup_num_tokens", "prompt lookup with " + (has_beams ? beams : returned),
                          "num_beams=1 and num_return_sequences=1");
  }
  const auto is_suppressed = [&](int32_t id) {
    return std::ranges::find(config.suppress_tokens, id) != config.suppress_tokens.end();
  };
  if (config.forced_bos_token_id && is_suppressed(*config.forced_bos_token_id)) {
    return invalid_option("suppress_tokens", fmt::format("forced_bos_token_id {}", *config.forced_bos_token_id),
                          "ids that are not forced");
  }
  if (!config.forced_eos_token_ids.empty() && std::ranges::all_of(config.forced_eos_token_ids, is_suppressed)) {
    return invalid_option("suppress_tokens", "every forced_eos_token_id", "ids that are not forced");
  }
  return ok();
}

}  // namespace

Result<void> GenerationConfig::validate() const {
  for (const Option& option : options()) {
    if (has_effect(option, *this)) LOCKSTEP_TRY_VOID(option.check(option, *this));
  }
  LOCKSTEP_TRY_VOID(check_lengths(*this));
  return check_together(*this);
}

Result<void> GenerationConfig::validate_streaming() const {
  LOCKSTEP_TRY_VOID(validate());
  if (num_beams == 1) return ok();
  return invalid_option("num_beams", std::to_string(num_beams) + " while tokens are streamed",
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
  return min_new_tokens.value_or(static_cast<int32_t>(std::max<int64_t>(0, min_length - prompt_length)));
}

}  // namespace lockstep::generation
