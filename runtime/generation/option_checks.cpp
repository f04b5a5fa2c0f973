#include "runtime/generation/option_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

namespace lockstep::generation {
namespace {

constexpr size_t kMostStopBytes = 4096;

Result<void> check_sequence(const Option& option, const std::vector<int32_t>& ids) {
  if (ids.empty()) return invalid_option(option.row.name, "an empty sequence", option.row.allowed);
  const auto wrong = std::ranges::find_if(ids, [](int32_t id) { return id < 0; });
  return wrong == ids.end() ? Result<void>(ok())
                            : invalid_option(option.row.name, fmt::format("{}", *wrong), "0 or more");
}

}  // namespace

Result<void> check_sequence_bias(const Option& option, const GenerationConfig& config) {
  for (const BiasedSequence& biased : config.sequence_bias) {
    LOCKSTEP_TRY_VOID(check_sequence(option, biased.ids));
    if (std::isnan(biased.bias)) return invalid_option(option.row.name, "a bias that is not a number", "a number");
  }
  return ok();
}

Result<void> check_bad_words(const Option& option, const GenerationConfig& config) {
  for (const std::vector<int32_t>& word : config.bad_words_ids) LOCKSTEP_TRY_VOID(check_sequence(option, word));
  return ok();
}

Result<void> check_length_decay(const Option& option, const GenerationConfig& config) {
  const auto& decay = config.exponential_decay_length_penalty;
  if (!decay || std::isfinite(decay->factor)) return ok();
  return invalid_option(option.row.name, fmt::format("{:g}", decay->factor), option.row.allowed);
}

Result<void> check_watermark(const Option& option, const GenerationConfig& config) {
  if (!config.watermarking_config) return ok();
  const Watermark& watermark = *config.watermarking_config;
  constexpr int64_t kMostKey = std::numeric_limits<uint32_t>::max();
  const auto invalid = [&](std::string_view key, const auto& found, std::string_view expected) -> Error {
    return invalid_option(fmt::format("{}.{}", option.row.name, key), fmt::format("{}", found), expected);
  };
  if (!(watermark.green_share > 0 && watermark.green_share < 1)) {
    return invalid("greenlist_ratio", watermark.green_share, "above 0 and below 1");
  }
  if (!std::isfinite(watermark.bias)) return invalid("bias", watermark.bias, "a finite number");
  if (watermark.hashing_key < 0 || watermark.hashing_key > kMostKey) {
    return invalid("hashing_key", watermark.hashing_key, fmt::format("0 to {}", kMostKey));
  }
  if (watermark.context >= 1) return ok();
  return invalid("context_width", watermark.context, "at least 1");
}

Result<void> check_eos_ids(const Option& option, const GenerationConfig& config) {
  for (const int32_t id : config.eos_token_ids) {
    if (id < 0) return invalid_option(option.row.name, fmt::format("{}", id), option.row.allowed);
  }
  if (std::ssize(config.eos_token_ids) <= sampling::kMaxEosIds) return ok();
  return invalid_option(option.row.name, fmt::format("{} ids", config.eos_token_ids.size()),
                        fmt::format("at most {}", sampling::kMaxEosIds));
}

/// Every sequence of a request has its copy of them.
Result<void> check_stop_strings(const Option& option, const GenerationConfig& config) {
  for (const std::string& text : config.stop_strings) {
    if (text.empty()) return invalid_option(option.row.name, "an empty string", option.row.allowed);
    if (text.size() > kMostStopBytes) {
      return invalid_option(option.row.name, fmt::format("one of {} bytes", text.size()), option.row.allowed);
    }
  }
  return ok();
}

}  // namespace lockstep::generation
