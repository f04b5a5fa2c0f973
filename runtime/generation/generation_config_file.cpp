// The options in files: generation_config.json, or in its absence config.json.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "runtime/core/json_depth.h"
#include "runtime/generation/generation_config.h"
#include "runtime/generation/options.h"
#include "runtime/gguf/model_texts.h"

namespace lockstep::generation {
namespace {

using Json = nlohmann::json;

std::string shown(const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace); }

Error wrong(std::string_view origin, std::string_view key, const Json& found, std::string_view expected) {
  return {ErrorKind::kInvalidArgument,
          fmt::format("[runtime/generation] {}: {}: found {}, expected {}", origin, key, shown(found), expected)};
}

/// Unsupported options, with the values that do not change an answer. Null is always one of them.
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

enum class Outcome { kSet, kUnserved, kUnknown };

/// Null keeps the old value, as in Hugging Face's files.
Result<Outcome> set_option(GenerationConfig& config, std::string_view key, const Json& value, std::string_view origin) {
  const auto found = std::ranges::find_if(options(), [&](const Option& option) { return key == option.row.name; });
  if (found != options().end()) {
    if (!value.is_null() && !found->read(value, config)) return wrong(origin, key, value, found->expected);
    return Outcome::kSet;
  }
  const auto& all_unserved = unserved_options();
  const auto unserved = std::ranges::find_if(all_unserved, [&](const Unserved& option) { return key == option.key; });
  if (unserved == all_unserved.end()) return Outcome::kUnknown;
  const auto& neutral = unserved->neutral;
  const bool is_neutral = value.is_null() || std::ranges::find(neutral, value) != neutral.end();
  return is_neutral ? Outcome::kSet : Outcome::kUnserved;
}

/// Older files write -1 for a token that a model does not have.
void drop_absent_tokens(GenerationConfig& config) {
  std::erase_if(config.eos_token_ids, [](int32_t id) { return id < 0; });
  for (std::optional<int32_t>* id : {&config.pad_token_id, &config.bos_token_id}) {
    if (id->value_or(0) < 0) id->reset();
  }
}

std::string served_keys() {
  std::vector<std::string_view> keys;
  for (const GenerationOption& row : generation_options()) keys.push_back(row.name);
  return fmt::format("{}", fmt::join(keys, ", "));
}

Error not_served(std::string_view origin, const std::vector<std::string>& options) {
  return {ErrorKind::kUnsupported,
          fmt::format("[runtime/generation] {}: found options that are not served: {}; expected only {}; remove "
                      "them to go on without",
                      origin, fmt::join(options, ", "), served_keys())};
}

Result<Json> parse_object(std::string_view json, std::string_view origin) {
  Json file = parse_shallow<Json>(json);
  if (!file.is_discarded() && file.is_object()) return file;
  return Error{
      ErrorKind::kInvalidArgument,
      fmt::format("[runtime/generation] {}: found no JSON object, expected one; fetch the file again", origin)};
}

Result<LoadedConfig> read_options(const Json& file, std::string_view origin) {
  LoadedConfig loaded;
  std::vector<std::string> refused;
  for (const auto& [key, value] : file.items()) {
    LOCKSTEP_TRY(const Outcome outcome, set_option(loaded.config, key, value, origin));
    if (outcome == Outcome::kUnknown) loaded.ignored.push_back(key);
    if (outcome == Outcome::kSet && !value.is_null()) loaded.present.push_back(key);
    if (outcome == Outcome::kUnserved) refused.push_back(fmt::format("{}={}", key, shown(value)));
  }
  if (!refused.empty()) return not_served(origin, refused);
  drop_absent_tokens(loaded.config);
  return loaded;
}

}  // namespace

Result<void> GenerationConfig::set(std::string_view name, std::string_view json) {
  constexpr std::string_view kOrigin = "generation option";
  const auto value = parse_shallow<Json>(json);
  if (value.is_discarded()) return wrong(kOrigin, name, std::string(json), "a value as in JSON");
  LOCKSTEP_TRY(const Outcome outcome, set_option(*this, name, value, kOrigin));
  if (outcome == Outcome::kUnserved) return not_served(kOrigin, {fmt::format("{}={}", name, json)});
  if (outcome == Outcome::kSet) {
    if (name == "max_length") max_new_tokens.reset();  // an explicit max_length replaces max_new_tokens
    return ok();
  }
  return Error{ErrorKind::kInvalidArgument,
               fmt::format("[runtime/generation] {}: found {}, expected one of {}", kOrigin, name, served_keys())};
}

Result<LoadedConfig> parse_generation_config(std::string_view json, std::string_view origin) {
  LOCKSTEP_TRY(const Json file, parse_object(json, origin));
  return read_options(file, origin);
}

Result<LoadedConfig> parse_model_options(std::string_view config_json, std::string_view origin) {
  LOCKSTEP_TRY(const Json file, parse_object(config_json, origin));
  const auto part = file.find("text_config");
  Json both = part != file.end() && part->is_object() ? *part : Json::object();
  for (const auto& [key, value] : file.items()) {
    if (!value.is_null()) both[key] = value;
  }
  LOCKSTEP_TRY(LoadedConfig loaded, read_options(both, origin));
  loaded.ignored.clear();  // they describe the model
  return loaded;
}

Result<LoadedConfig> read_generation_config(const std::filesystem::path& directory) {
  const std::filesystem::path path = directory / "generation_config.json";
  std::error_code error;
  if (!gguf::is_inside(path) && !std::filesystem::exists(path, error) && !error) {
    return read_model_options(directory / "config.json");
  }
  LOCKSTEP_TRY(const auto text, gguf::read_model_text(path));
  if (error || !text) {
    return Error{ErrorKind::kNotFound, fmt::format("[runtime/generation] cannot read {}: expected a readable file or "
                                                   "none; check its permissions",
                                                   path.string())};
  }
  return parse_generation_config(*text, path.string());
}

Result<LoadedConfig> read_model_options(const std::filesystem::path& config_json) {
  LOCKSTEP_TRY(const auto text, gguf::read_model_text(config_json));
  return text ? parse_model_options(*text, config_json.string()) : LoadedConfig{};
}

}  // namespace lockstep::generation
