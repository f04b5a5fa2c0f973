#include "runtime/generation/generation_config.h"

#include <fmt/format.h>

#include <cmath>

namespace lockstep::generation {
namespace {

Error invalid(std::string_view option, const std::string& found, std::string_view expected) {
  return {ErrorKind::kInvalidArgument,
          fmt::format("[runtime/generation] {}: found {}, expected {}", option, found, expected)};
}

std::string shown(double value) { return fmt::format("{:g}", value); }

}  // namespace

// Comparisons are written so that NaN fails them.
Result<void> GenerationConfig::validate() const {
  if (!(temperature > 0) || !std::isfinite(temperature)) {
    return invalid("temperature", shown(temperature), "a number above 0; for the likeliest token use do_sample=false");
  }
  if (top_k < 0) return invalid("top_k", std::to_string(top_k), "0 (all tokens) or more");
  if (!(top_p > 0 && top_p <= 1)) return invalid("top_p", shown(top_p), "above 0 and at most 1");
  if (!(min_p >= 0 && min_p <= 1)) return invalid("min_p", shown(min_p), "0 to 1");
  if (!(repetition_penalty > 0) || !std::isfinite(repetition_penalty)) {
    return invalid("repetition_penalty", shown(repetition_penalty), "a number above 0 (1: none)");
  }
  if (max_new_tokens && *max_new_tokens < 1) {
    return invalid("max_new_tokens", std::to_string(*max_new_tokens), "at least 1");
  }
  if (max_length && *max_length < 1) return invalid("max_length", std::to_string(*max_length), "at least 1");
  if (std::ssize(eos_token_ids) > sampling::kMaxEosIds) {
    return invalid("eos_token_id", fmt::format("{} ids", eos_token_ids.size()),
                   fmt::format("at most {}", sampling::kMaxEosIds));
  }
  for (const int32_t id : eos_token_ids) {
    if (id < 0) return invalid("eos_token_id", std::to_string(id), "0 or more");
  }
  if (pad_token_id && *pad_token_id < 0) return invalid("pad_token_id", std::to_string(*pad_token_id), "0 or more");
  for (const std::string& stop : stop_strings) {
    if (stop.empty()) return invalid("stop_strings", "an empty string", "strings of at least one character");
  }
  if (max_time && !(*max_time > 0)) return invalid("max_time", shown(*max_time), "seconds above 0");
  return ok();
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
  return parameters;
}

}  // namespace lockstep::generation
