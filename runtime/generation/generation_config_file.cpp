// generation_config.json: which keys we serve, which we refuse, which mean nothing to us.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "runtime/generation/generation_config.h"
#include "runtime/generation/option_values.h"

namespace lockstep::generation {
namespace {

using Json = nlohmann::json;

std::string shown(const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace); }

Error wrong(std::string_view origin, std::string_view key, const Json& found, std::string_view expected) {
  return {ErrorKind::kInvalidArgument,
          fmt::format("[runtime/generation] {}: {}: found {}, expected {}", origin, key, shown(found), expected)};
}

/// Options that are not served, with the values that leave an answer as it is. Null is always one.
struct Unserved {
  const char* key;
  std::vector<Json> neutral;
};

const std::vector<Unserved>& unserved_options() {
  static const std::vector<Unserved> options = {
      {"num_beam_groups", {1}},   {"diversity_penalty", {0.0}},         {"penalty_alpha", {0.0}},
      {"dola_layers", {}},        {"force_words_ids", {Json::array()}}, {"constraints", {Json::array()}},
      {"forced_decoder_ids", {}}, {"token_healing", {false}},           {"low_memory", {false}},
      {"use_mtp", {false}},       {"assistant_early_exit", {}},         {"assistant_ensemble_weight", {}},
  };
  return options;
}

/// An option that is served: where its value goes.
struct Served {
  const char* key;
  const char* expected;
  std::function<bool(const Json&, GenerationConfig&)> read_into;
};

template <typename T>
Served served(const char* key, const char* expected, T GenerationConfig::*field) {
  return {key, expected,
          [field](const Json& value, GenerationConfig& config) { return read_option(value, config.*field); }};
}

const std::vector<Served>& served_options() {
  using Config = GenerationConfig;
  constexpr const char* kFlag = "true or false";
  constexpr const char* kNumber = "a number";
  constexpr const char* kWhole = "a 32-bit whole number";
  constexpr const char* kIds = "an id or a list of ids";
  static const std::vector<Served> options = {
      served("do_sample", kFlag, &Config::do_sample),
      served("temperature", kNumber, &Config::temperature),
      served("top_k", kWhole, &Config::top_k),
      served("top_p", kNumber, &Config::top_p),
      served("min_p", kNumber, &Config::min_p),
      served("top_h", kNumber, &Config::top_h),
      served("typical_p", kNumber, &Config::typical_p),
      served("epsilon_cutoff", kNumber, &Config::epsilon_cutoff),
      served("eta_cutoff", kNumber, &Config::eta_cutoff),
      served("seed", "a whole number, 0 or more", &Config::seed),
      served("guidance_scale", kNumber, &Config::guidance_scale),
      served("sequence_bias", "a list like [[[5, 6], -1.5], [[7], 2.0]]", &Config::sequence_bias),
      served("encoder_repetition_penalty", kNumber, &Config::encoder_repetition_penalty),
      served("repetition_penalty", kNumber, &Config::repetition_penalty),
      served("no_repeat_ngram_size", kWhole, &Config::no_repeat_ngram_size),
      served("encoder_no_repeat_ngram_size", kWhole, &Config::encoder_no_repeat_ngram_size),
      served("bad_words_ids", "a list of lists of ids", &Config::bad_words_ids),
      served("forced_bos_token_id", kWhole, &Config::forced_bos_token_id),
      served("forced_eos_token_id", kIds, &Config::forced_eos_token_ids),
      served("remove_invalid_values", kFlag, &Config::remove_invalid_values),
      served("exponential_decay_length_penalty", "a list of a whole number and a factor",
             &Config::exponential_decay_length_penalty),
      served("suppress_tokens", kIds, &Config::suppress_tokens),
      served("begin_suppress_tokens", kIds, &Config::begin_suppress_tokens),
      served("watermarking_config",
             "an object with greenlist_ratio, bias, hashing_key, seeding_scheme (\"lefthash\" or \"selfhash\") and "
             "context_width",
             &Config::watermarking_config),
      served("renormalize_logits", kFlag, &Config::renormalize_logits),
      served("max_new_tokens", kWhole, &Config::max_new_tokens),
      served("max_length", kWhole, &Config::max_length),
      served("min_new_tokens", kWhole, &Config::min_new_tokens),
      served("min_length", kWhole, &Config::min_length),
      served("eos_token_id", kIds, &Config::eos_token_ids),
      served("pad_token_id", kWhole, &Config::pad_token_id),
      served("bos_token_id", kWhole, &Config::bos_token_id),
      served("stop_strings", "a string or a list of strings", &Config::stop_strings),
      served("max_time", kNumber, &Config::max_time),
      served("num_beams", kWhole, &Config::num_beams),
      served("num_return_sequences", kWhole, &Config::num_return_sequences),
      served("length_penalty", kNumber, &Config::length_penalty),
      served("early_stopping", "true, false or \"never\"", &Config::early_stopping),
      served("num_assistant_tokens", kWhole, &Config::num_assistant_tokens),
      served("prompt_lookup_num_tokens", kWhole, &Config::prompt_lookup_num_tokens),
      served("max_matching_ngram_size", kWhole, &Config::max_matching_ngram_size),
      served("output_scores", kFlag, &Config::output_scores),
      served("output_logits", kFlag, &Config::output_logits),
      served("top_logprobs", kWhole, &Config::top_logprobs),
  };
  return options;
}

enum class Outcome { kSet, kUnserved, kUnknown };

/// Null keeps what is there, as in Hugging Face's files.
Result<Outcome> set_option(GenerationConfig& config, std::string_view key, const Json& value, std::string_view origin) {
  const auto& all_served = served_options();
  const auto found = std::ranges::find_if(all_served, [&](const Served& option) { return key == option.key; });
  if (found != all_served.end()) {
    if (!value.is_null() && !found->read_into(value, config)) return wrong(origin, key, value, found->expected);
    return Outcome::kSet;
  }
  const auto& all_unserved = unserved_options();
  const auto unserved = std::ranges::find_if(all_unserved, [&](const Unserved& option) { return key == option.key; });
  if (unserved == all_unserved.end()) return Outcome::kUnknown;
  const auto& neutral = unserved->neutral;
  const bool is_neutral = value.is_null() || std::ranges::find(neutral, value) != neutral.end();
  return is_neutral ? Outcome::kSet : Outcome::kUnserved;
}

std::string served_keys() {
  std::vector<std::string_view> keys;
  for (const Served& option : served_options()) keys.emplace_back(option.key);
  return fmt::format("{}", fmt::join(keys, ", "));
}

Error not_served(std::string_view origin, const std::vector<std::string>& options) {
  return {ErrorKind::kUnsupported,
          fmt::format("[runtime/generation] {}: found options that are not served: {}; expected only {}; remove "
                      "them to go on without",
                      origin, fmt::join(options, ", "), served_keys())};
}

}  // namespace

Result<void> GenerationConfig::set(std::string_view name, std::string_view json) {
  const Json value = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  constexpr std::string_view kOrigin = "generation option";
  if (value.is_discarded()) return wrong(kOrigin, name, std::string(json), "a value as in JSON");
  LOCKSTEP_TRY(const Outcome outcome, set_option(*this, name, value, kOrigin));
  if (outcome == Outcome::kUnserved) return not_served(kOrigin, {fmt::format("{}={}", name, json)});
  if (outcome == Outcome::kSet) {
    if (name == "max_length") max_new_tokens.reset();  // whoever sets a length means that one
    return ok();
  }
  return Error{ErrorKind::kInvalidArgument,
               fmt::format("[runtime/generation] {}: found {}, expected one of {}", kOrigin, name, served_keys())};
}

Result<LoadedConfig> parse_generation_config(std::string_view json, std::string_view origin) {
  const Json file = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (file.is_discarded() || !file.is_object()) {
    return Error{
        ErrorKind::kInvalidArgument,
        fmt::format("[runtime/generation] {}: found no JSON object, expected one; fetch the file again", origin)};
  }
  LoadedConfig loaded;
  std::vector<std::string> refused;
  for (const auto& [key, value] : file.items()) {
    LOCKSTEP_TRY(const Outcome outcome, set_option(loaded.config, key, value, origin));
    if (outcome == Outcome::kUnknown) loaded.ignored.push_back(key);
    if (outcome == Outcome::kUnserved) refused.push_back(fmt::format("{}={}", key, shown(value)));
  }
  if (!refused.empty()) return not_served(origin, refused);
  return loaded;
}

Result<LoadedConfig> read_generation_config(const std::filesystem::path& directory) {
  const std::filesystem::path path = directory / "generation_config.json";
  std::error_code error;
  if (!std::filesystem::exists(path, error) && !error) return LoadedConfig{};
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  if (error || !file) {
    return Error{ErrorKind::kNotFound, fmt::format("[runtime/generation] cannot read {}: expected a readable file or "
                                                   "none; check its permissions",
                                                   path.string())};
  }
  return parse_generation_config(text, path.string());
}

}  // namespace lockstep::generation
