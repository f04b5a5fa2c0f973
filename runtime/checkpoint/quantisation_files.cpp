// Where the files of a model directory say how its weights are quantised.
#include <fmt/format.h>

#include <array>

#include "runtime/checkpoint/quantisation_config.h"

namespace lockstep::checkpoint {
namespace {

using nlohmann::json;

constexpr int64_t kMaxConfigBytes = int64_t{64} << 20;
constexpr std::string_view kKeys[] = {"quantization_config", "compression_config"};

/// Files of older libraries and of ModelOpt.
constexpr const char* kFilesBeside[] = {"quantize_config.json", "quant_config.json", "hf_quant_config.json"};

/// Replaces the object `dynamic` at `place` by a list of its pairs in the order of the text, in which its rules hold.
void keep_order(json& document, std::string_view text, const char* place) {
  const json::json_pointer at(place);
  if (!document.contains(at) || !document[at].is_object()) return;
  const auto ordered = nlohmann::ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
  json pairs = json::array();
  for (const auto& [key, value] : ordered[nlohmann::ordered_json::json_pointer(place)].items()) {
    pairs.push_back(json::array({key, document[at][key]}));
  }
  document[at] = std::move(pairs);
}

}  // namespace

Result<json> parse_config(std::string_view text, std::string_view origin) {
  LOCKSTEP_TRY(json document, parse_json_object(text, origin));
  for (const char* place : {"/dynamic", "/quantization_config/dynamic", "/text_config/quantization_config/dynamic"}) {
    keep_order(document, text, place);
  }
  return document;
}

const json* quantisation_of(const json& config) {
  for (const std::string_view key : kKeys) {
    if (const auto at = config.find(key); at != config.end() && !at->is_null()) return &*at;
  }
  const auto text = config.find("text_config");
  return text != config.end() && text->is_object() ? quantisation_of(*text) : nullptr;
}

Result<void> add_quantisation_beside(json& config, const std::filesystem::path& directory) {
  if (quantisation_of(config) != nullptr) return ok();
  for (const char* name : kFilesBeside) {
    const std::filesystem::path path = directory / name;
    std::error_code ignored;
    if (!std::filesystem::exists(path, ignored)) continue;
    LOCKSTEP_TRY(const std::string text, read_text_file(path, kMaxConfigBytes));
    LOCKSTEP_TRY(json found, parse_config(text, path.string()));
    if (const auto inner = found.find("quantization"); inner != found.end() && inner->is_object()) {  // ModelOpt's
      json object = *inner;
      found = std::move(object);
    }
    config["quantization_config"] = std::move(found);
    return ok();
  }
  return ok();
}

Result<std::optional<QuantisationConfig>> read_quantisation_of(const std::filesystem::path& directory, DType dtype) {
  const std::filesystem::path path = directory / "config.json";
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return std::optional<QuantisationConfig>();
  LOCKSTEP_TRY(const std::string text, read_text_file(path, kMaxConfigBytes));
  LOCKSTEP_TRY(json config, parse_config(text, path.string()));
  LOCKSTEP_TRY_VOID(add_quantisation_beside(config, directory));
  const json* quantisation = quantisation_of(config);
  if (quantisation == nullptr) return std::optional<QuantisationConfig>();
  LOCKSTEP_TRY(auto read, read_quantisation(*quantisation, path.string(), dtype));
  return std::optional<QuantisationConfig>(std::move(read));
}

}  // namespace lockstep::checkpoint
