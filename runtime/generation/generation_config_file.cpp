// generation_config.json: which keys we serve, which we refuse, which mean nothing to us.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "runtime/generation/generation_config.h"

namespace lockstep::generation {
namespace {

using Json = nlohmann::json;

std::string shown(const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace); }

Error wrong(std::string_view origin, std::string_view key, const Json& found, std::string_view expected) {
  return {ErrorKind::kInvalidArgument,
          fmt::format("[runtime/generation] {}: {}: found {}, expected {}", origin, key, shown(found), expected)};
}

/// Options that are not served yet, with the values that leave an answer as it is. Null is always one.
struct Unserved {
  const char* key;
  std::vector<Json> neutral;
};

const std::vector<Unserved>& unserved_options() {
  static const std::vector<Unserved> options = {
      {"num_beams", {1}},
      {"num_beam_groups", {1}},
      {"num_return_sequences", {1}},
      {"no_repeat_ngram_size", {0}},
      {"encoder_no_repeat_ngram_size", {0}},
      {"encoder_repetition_penalty", {1.0}},
      {"min_new_tokens", {0}},
      {"min_length", {0}},
      {"typical_p", {1.0}},
      {"epsilon_cutoff", {0.0}},
      {"eta_cutoff", {0.0}},
      {"top_h", {}},
      {"penalty_alpha", {0.0}},
      {"dola_layers", {}},
      {"guidance_scale", {1.0}},
      {"bad_words_ids", {Json::array()}},
      {"force_words_ids", {Json::array()}},
      {"constraints", {Json::array()}},
      {"sequence_bias", {Json::array(), Json::object()}},
      {"suppress_tokens", {Json::array()}},
      {"begin_suppress_tokens", {Json::array()}},
      {"forced_bos_token_id", {}},
      {"forced_eos_token_id", {}},
      {"forced_decoder_ids", {}},
      {"exponential_decay_length_penalty", {}},
      {"watermarking_config", {}},
      {"prompt_lookup_num_tokens", {}},
      {"token_healing", {false}},
      {"remove_invalid_values", {false}},
      {"renormalize_logits", {false}},
  };
  return options;
}

// How a value is read into a field; false when it has another type.
bool read(const Json& value, bool& field) {
  if (!value.is_boolean()) return false;
  field = value.get<bool>();
  return true;
}

bool read(const Json& value, double& field) {
  if (!value.is_number()) return false;
  field = value.get<double>();
  return true;
}

bool read(const Json& value, int32_t& field) {
  using Limits = std::numeric_limits<int32_t>;
  if (!value.is_number_integer() || value < Limits::min() || value > Limits::max()) return false;
  field = value.get<int32_t>();
  return true;
}

bool read(const Json& value, uint64_t& field) {
  if (!value.is_number_unsigned()) return false;
  field = value.get<uint64_t>();
  return true;
}

bool read(const Json& value, std::string& field) {
  if (!value.is_string()) return false;
  field = value.get<std::string>();
  return true;
}

template <typename T>
bool read(const Json& value, std::optional<T>& field) {
  T element{};
  if (!read(value, element)) return false;
  field = std::move(element);
  return true;
}

/// One element, or a list of them.
template <typename T>
bool read(const Json& value, std::vector<T>& field) {
  std::vector<T> elements;
  for (const Json& element : value.is_array() ? value : Json::array({value})) {
    if (!read(element, elements.emplace_back())) return false;
  }
  field = std::move(elements);
  return true;
}

/// An option that is served: where its value goes.
struct Served {
  const char* key;
  const char* expected;
  std::function<bool(const Json&, GenerationConfig&)> read_into;
};

template <typename T>
Served served(const char* key, const char* expected, T GenerationConfig::*field) {
  return {key, expected, [field](const Json& value, GenerationConfig& config) { return read(value, config.*field); }};
}

const std::vector<Served>& served_options() {
  using Config = GenerationConfig;
  constexpr const char* kWhole = "a 32-bit whole number";
  static const std::vector<Served> options = {
      served("do_sample", "true or false", &Config::do_sample),
      served("temperature", "a number", &Config::temperature),
      served("top_k", kWhole, &Config::top_k),
      served("top_p", "a number", &Config::top_p),
      served("min_p", "a number", &Config::min_p),
      served("repetition_penalty", "a number", &Config::repetition_penalty),
      served("seed", "a whole number, 0 or more", &Config::seed),
      served("max_new_tokens", kWhole, &Config::max_new_tokens),
      served("max_length", kWhole, &Config::max_length),
      served("eos_token_id", "an id or a list of ids", &Config::eos_token_ids),
      served("pad_token_id", kWhole, &Config::pad_token_id),
      served("bos_token_id", kWhole, &Config::bos_token_id),
      served("stop_strings", "a string or a list of strings", &Config::stop_strings),
      served("max_time", "a number", &Config::max_time),
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
          fmt::format("[runtime/generation] {}: found options that are not served yet: {}; expected only {}; remove "
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
  if (outcome == Outcome::kSet) return ok();
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
