#include "runtime/checkpoint/model_spec.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "runtime/checkpoint/json_document.h"
#include "runtime/checkpoint/quantisation_config.h"
#include "runtime/checkpoint/spec_families.h"
#include "runtime/checkpoint/spec_keys.h"
#include "runtime/checkpoint/stored_files.h"
#include "runtime/checkpoint/stored_tensors.h"
#include "runtime/gguf/gguf_model.h"

namespace lockstep::checkpoint {
namespace {

using nlohmann::json;

constexpr int64_t kMaxConfigBytes = int64_t{64} << 20;

/// A model type that has no reader.
struct MissingType {
  std::string_view name;
  std::string_view family;
  std::string_view needs;  // what its layers have and this program lacks
};

constexpr std::string_view kScan = "Mamba layers (a state-space scan)";
constexpr std::string_view kScan2 = "Mamba-2 layers (a state-space scan)";
constexpr std::string_view kIndexer = "attention to the tokens that an indexer chooses";
constexpr std::string_view kShortConvolutions = "layers of gated short convolutions";

constexpr MissingType kMissingTypes[] = {
    {"bamba", "Bamba", kScan2},
    {"deepseek_v32", "DeepSeek-V3.2", kIndexer},
    {"falcon_h1", "Falcon-H1", "Mamba-2 (a state-space scan) beside attention"},
    {"falcon_mamba", "Falcon Mamba", kScan},
    {"glm_moe_dsa", "GLM-5", kIndexer},
    {"granitemoehybrid", "Granite 4.0", kScan2},
    {"jamba", "Jamba", kScan},
    {"kimi_linear", "Kimi Linear", "a delta rule with a decay for each channel of a key"},
    {"lfm2", "LFM2", kShortConvolutions},
    {"lfm2_moe", "LFM2-MoE", kShortConvolutions},
    {"mamba", "Mamba", kScan},
    {"mamba2", "Mamba-2", kScan2},
    {"mimo_v2_flash", "MiMo-V2-Flash", "values narrower than keys, and other heads where there is a window"},
    {"minimax", "MiniMax-01", "lightning attention"},
    {"nemotron_h", "Nemotron-H", kScan2},
    {"recurrent_gemma", "RecurrentGemma", "layers of gated linear recurrences (RG-LRU)"},
    {"zamba2", "Zamba2", kScan2},
};

/// All model types, by name.
std::vector<ModelType> model_types() {
  std::vector<ModelType> types;
  for (const auto group : {plain_types(), gated_types(), dense_types(), gemma_types(), recurrent_types(),
                           expert_types(), latent_types()}) {
    types.insert(types.end(), group.begin(), group.end());
  }
  std::ranges::sort(types, {}, &ModelType::name);
  return types;
}

/// The entry named by `model_type` or, in a file without that key, by the first architecture.
Result<ModelType> model_type_of(const KeyReader& config) {
  const std::vector<ModelType> types = model_types();
  const json* architectures = config.find("architectures");
  if (!config.has("model_type") && architectures != nullptr && architectures->is_array() && !architectures->empty()) {
    std::vector<std::string_view> known;
    for (const ModelType& type : types) {
      if (architectures->front() == type.architecture) return type;
      known.push_back(type.architecture);
    }
    return unsupported(config, "architectures", describe(architectures->front()),
                       fmt::format("one of: {}", fmt::join(known, ", ")));
  }
  LOCKSTEP_TRY(const std::string name, config.text("model_type"));
  for (const ModelType& type : types) {
    if (type.name == name) return type;
  }
  std::string found = fmt::format("\"{}\"", name);
  for (const MissingType& type : kMissingTypes) {
    if (type.name == name) found += fmt::format(" ({}), which needs {}", type.family, type.needs);
  }
  return unsupported(config, "model_type", found, fmt::format("one of: {}", fmt::join(supported_model_types(), ", ")));
}

/// The formats of the quantised matrices, if there are any.
Result<WeightFormats> read_formats(const json& document, std::string_view origin, const ModelSpec& spec) {
  const json* quantisation = quantisation_of(document);
  if (quantisation == nullptr) return WeightFormats();
  LOCKSTEP_TRY(const QuantisationConfig config, read_quantisation(*quantisation, origin, spec.dtype));
  return expected_formats(config, spec);
}

Result<ModelSpec> spec_of(const json& document, std::string_view origin) {
  KeyReader::Names read;
  const KeyReader reader(document, std::string(origin), &read);
  LOCKSTEP_TRY(const ModelType type, model_type_of(reader));
  LOCKSTEP_TRY_VOID(require_known_quantisation(reader, type.name));
  LOCKSTEP_TRY_VOID(require_switch(reader, "is_encoder_decoder", false));
  LOCKSTEP_TRY(ModelSpec spec, type.read(reader));
  if (const auto layers = document.find("per_layer_config");
      layers != document.end() && !layers->empty() && !read.contains("per_layer_config")) {
    return unsupported(reader, "per_layer_config", describe(*layers), "layers that are all alike");
  }
  LOCKSTEP_TRY_VOID(require_known_keys(document, reader, read, type.idle_keys));
  LOCKSTEP_TRY(spec.formats, read_formats(document, origin, spec));
  return spec;
}

}  // namespace

std::vector<HeadShape> ModelSpec::head_shapes() const {
  std::vector<HeadShape> shapes;
  for (int64_t layer = 0; layer < layers; ++layer) {
    if (std::ranges::find(shapes, heads_of(layer)) == shapes.end()) shapes.push_back(heads_of(layer));
  }
  return shapes;
}

int64_t ModelSpec::cache_layer(int64_t layer) const {
  if (!shares_cache(layer)) return layer;
  int64_t source = layers - layers_sharing_cache - 1;
  while (source > 0 && (window(source) > 0) != (window(layer) > 0)) --source;
  return source;
}

std::vector<std::string> supported_model_types() {
  std::vector<std::string> names;
  for (const ModelType& type : model_types()) names.emplace_back(type.name);
  return names;
}

Result<ModelSpec> parse_spec(std::string_view config, std::string_view origin) {
  LOCKSTEP_TRY(const json document, parse_config(config, origin));
  return spec_of(document, origin);
}

Result<ModelSpec> read_spec(const std::filesystem::path& config_json) {
  LOCKSTEP_TRY(const std::string text, read_text_file(config_json, kMaxConfigBytes));
  LOCKSTEP_TRY(json document, parse_config(text, config_json.string()));
  LOCKSTEP_TRY_VOID(add_quantisation_beside(document, config_json.parent_path()));
  LOCKSTEP_TRY(ModelSpec spec, spec_of(document, config_json.string()));
  const std::filesystem::path directory = config_json.parent_path();
  if (spec.formats.any() && StoredFiles::are_in(directory)) {
    LOCKSTEP_TRY(spec.formats, stored_weight_formats(directory, spec));
  }
  if (gguf::is_gguf(directory)) {  // missing tensors are an error when they are read
    auto formats = stored_weight_formats(directory, spec);
    if (formats.has_value()) spec.formats = std::move(formats).assume_value();
  }
  return spec;
}

}  // namespace lockstep::checkpoint
