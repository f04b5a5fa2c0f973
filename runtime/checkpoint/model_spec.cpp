#include "runtime/checkpoint/model_spec.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

#include "runtime/checkpoint/json_document.h"
#include "runtime/checkpoint/spec_families.h"
#include "runtime/checkpoint/spec_keys.h"

namespace lockstep::checkpoint {
namespace {

using nlohmann::json;

constexpr int64_t kMaxConfigBytes = int64_t{64} << 20;

struct ModelType {
  std::string_view name;
  std::string_view architecture;  // the class in transformers
  Result<ModelSpec> (*read)(const KeyReader&);
};

constexpr std::array<ModelType, 16> kModelTypes = {{
    {"bloom", "BloomForCausalLM", read_bloom},
    {"gemma2", "Gemma2ForCausalLM", read_gemma2},
    {"gemma3", "Gemma3ForConditionalGeneration", read_gemma3},
    {"gemma3_text", "Gemma3ForCausalLM", read_gemma3_text},
    {"gpt2", "GPT2LMHeadModel", read_gpt2},
    {"gpt_neox", "GPTNeoXForCausalLM", read_gpt_neox},
    {"gpt_oss", "GptOssForCausalLM", read_gpt_oss},
    {"gptj", "GPTJForCausalLM", read_gptj},
    {"llama", "LlamaForCausalLM", read_llama},
    {"ministral", "MinistralForCausalLM", read_ministral},
    {"mistral", "MistralForCausalLM", read_mistral},
    {"mixtral", "MixtralForCausalLM", read_mixtral},
    {"opt", "OPTForCausalLM", read_opt},
    {"phi3", "Phi3ForCausalLM", read_phi3},
    {"qwen2", "Qwen2ForCausalLM", read_qwen2},
    {"qwen3", "Qwen3ForCausalLM", read_qwen3},
}};

/// The entry that `model_type` names or, in a file without that key, the first architecture.
Result<const ModelType*> model_type_of(const KeyReader& config) {
  const json* architectures = config.find("architectures");
  if (!config.has("model_type") && architectures != nullptr && architectures->is_array() && !architectures->empty()) {
    for (const ModelType& type : kModelTypes) {
      if (architectures->front() == type.architecture) return &type;
    }
    std::vector<std::string_view> known;
    known.reserve(kModelTypes.size());
    for (const ModelType& type : kModelTypes) known.push_back(type.architecture);
    return unsupported(config, "architectures", describe(architectures->front()),
                       fmt::format("one of: {}", fmt::join(known, ", ")));
  }
  LOCKSTEP_TRY(const std::string name, config.text("model_type"));
  for (const ModelType& type : kModelTypes) {
    if (type.name == name) return &type;
  }
  return unsupported(config, "model_type", fmt::format("\"{}\"", name),
                     fmt::format("one of: {}", fmt::join(supported_model_types(), ", ")));
}

}  // namespace

std::vector<std::string> supported_model_types() {
  std::vector<std::string> names;
  names.reserve(kModelTypes.size());
  for (const ModelType& type : kModelTypes) names.emplace_back(type.name);
  return names;
}

Result<ModelSpec> parse_spec(std::string_view config, std::string_view origin) {
  LOCKSTEP_TRY(const json document, parse_json_object(config, origin));
  const KeyReader reader(document, std::string(origin));
  LOCKSTEP_TRY(const ModelType* type, model_type_of(reader));
  LOCKSTEP_TRY_VOID(require_plain_weights(reader, type->name));
  LOCKSTEP_TRY_VOID(require_switch(reader, "is_encoder_decoder", false));
  if (const json* layers = reader.find("per_layer_config"); layers != nullptr && !layers->empty()) {
    return unsupported(reader, "per_layer_config", describe(*layers), "layers that are all alike");
  }
  return type->read(reader);
}

Result<ModelSpec> read_spec(const std::filesystem::path& config_json) {
  LOCKSTEP_TRY(const std::string text, read_text_file(config_json, kMaxConfigBytes));
  return parse_spec(text, config_json.string());
}

}  // namespace lockstep::checkpoint
