#include "runtime/checkpoint/quantisation_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

namespace lockstep::checkpoint {
namespace {

using nlohmann::json;
using Match = ModuleRule::Match;

constexpr Limits<int64_t> kGroups{-1, int64_t{1} << 24};
constexpr std::string_view kMethods = "gptq, awq, compressed-tensors, fp8, mxfp4 (gpt-oss), modelopt or none";

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

/// The columns of a group; −1 is a whole row.
Result<int64_t> read_group(const KeyReader& keys, std::string_view key, int64_t otherwise) {
  LOCKSTEP_TRY(const int64_t group, keys.integer_or(key, otherwise, kGroups));
  if (group == 0) return keys.wrong(key, "−1 (a whole row) or the columns of a group");
  return group < 0 ? MatrixFormat::kWholeRow : group;
}

/// Fails if the key has a value other than null, false and an empty container.
Result<void> refuse(const KeyReader& keys, std::string_view key, std::string_view expected) {
  const json* value = keys.find(key);
  if (value == nullptr || (value->is_boolean() && !value->get<bool>()) || (value->is_structured() && value->empty())) {
    return ok();
  }
  return cannot_read(keys, key, describe(*value), expected);
}

/// Heads are quantised only on request.
void leave_out_head(std::vector<ModuleRule>& rules) {
  for (const char* head : {"lm_head", "embed_out"}) rules.push_back({.match = Match::kPart, .text = head});
}

// ---- GPTQ ----

struct GptqKeys {
  int64_t bits = 0;
  int64_t group = MatrixFormat::kWholeRow;
  bool symmetric = true;
  bool ordered = false;
  CodedLayout layout = CodedLayout::kGptq;

  QuantisedModule module() const {
    const WeightFormat weights{.bits = static_cast<int>(bits),
                               .group = group,
                               .offset = symmetric ? GroupOffset::kNone : GroupOffset::kZeros,
                               .scale = ScaleType::kFloat16};
    return {.layout = layout, .format = {.weights = weights, .ordered = ordered}};
  }
};

/// Reads the keys of all modules, or those of some of them over `keys`.
Result<GptqKeys> read_gptq_keys(const KeyReader& object, const GptqKeys& otherwise) {
  GptqKeys keys = otherwise;
  if (otherwise.bits == 0 || object.has("bits")) {
    LOCKSTEP_TRY(keys.bits, object.integer("bits", {1, 16}));
  }
  if (keys.bits != 4 && keys.bits != 8) {
    return cannot_read(object, "bits", fmt::format("{}", keys.bits), "4 or 8 bits");
  }
  const int64_t group = otherwise.group == MatrixFormat::kWholeRow ? -1 : otherwise.group;
  LOCKSTEP_TRY(keys.group, read_group(object, "group_size", group));
  LOCKSTEP_TRY(keys.symmetric, object.boolean_or("sym", otherwise.symmetric));
  LOCKSTEP_TRY(keys.ordered, object.boolean_or("desc_act", otherwise.ordered));
  LOCKSTEP_TRY_VOID(refuse(object, "adapter", "weights without an adapter"));
  return keys;
}

/// One rule of GPTQModel's `dynamic`: "-:EXPRESSION" leaves modules out, "+:EXPRESSION" gives them other keys.
Result<ModuleRule> read_dynamic_rule(const KeyReader& quantisation, std::string_view expression, const json& overrides,
                                     const GptqKeys& usual) {
  if (expression.starts_with("-:"))
    return ModuleRule{.match = Match::kPattern, .text = std::string(expression.substr(2))};
  if (expression.starts_with("+:")) expression.remove_prefix(2);
  if (!overrides.is_object()) return quantisation.wrong("dynamic", "an object of keys for each expression");
  const KeyReader own(overrides, fmt::format("{}: dynamic: {}", quantisation.origin(), expression));
  LOCKSTEP_TRY(const GptqKeys keys, read_gptq_keys(own, usual));
  return ModuleRule{.match = Match::kPattern, .text = std::string(expression), .module = keys.module()};
}

Result<void> add_dynamic_rules(const KeyReader& quantisation, const GptqKeys& usual, std::vector<ModuleRule>& rules) {
  const json* dynamic = quantisation.find("dynamic");
  if (dynamic == nullptr) return ok();
  if (!dynamic->is_structured()) return quantisation.wrong("dynamic", "an object of keys for each expression");
  for (const auto& [key, value] : dynamic->items()) {
    const bool is_pair = dynamic->is_array() && value.is_array() && value.size() == 2 && value[0].is_string();
    if (dynamic->is_array() && !is_pair) return quantisation.wrong("dynamic", "an object of keys for each expression");
    const std::string expression = is_pair ? value[0].get<std::string>() : key;
    LOCKSTEP_TRY(ModuleRule rule, read_dynamic_rule(quantisation, expression, is_pair ? value[1] : value, usual));
    rules.push_back(std::move(rule));
  }
  return ok();
}

/// The modules of `modules_in_block_to_quantize`, lists of lists of names; all without the key.
Result<void> add_quantised_modules(const KeyReader& quantisation, const QuantisedModule& module,
                                   std::vector<ModuleRule>& rules) {
  const json* lists = quantisation.find("modules_in_block_to_quantize");
  if (lists == nullptr) {
    rules.push_back({.match = Match::kEvery, .module = module});
    return ok();
  }
  const auto wrong = [&] { return quantisation.wrong("modules_in_block_to_quantize", "lists of names"); };
  if (!lists->is_array()) return wrong();
  for (const json& list : *lists) {
    for (const json& name : list.is_array() ? list : json::array({list})) {
      if (!name.is_string()) return wrong();
      rules.push_back({.match = Match::kPart, .text = name.get<std::string>(), .module = module});
    }
  }
  return ok();
}

}  // namespace

Result<std::vector<ModuleRule>> read_gptq(const KeyReader& quantisation) {
  LOCKSTEP_TRY_VOID(refuse(quantisation, "is_marlin_format", "the format gptq or gptq_v2"));
  LOCKSTEP_TRY_VOID(refuse(quantisation, "rotation", "weights without a rotation"));
  LOCKSTEP_TRY(const std::string words, quantisation.text_or("pack_dtype", "int32"));
  if (words != "int32") return cannot_read(quantisation, "pack_dtype", words, "int32");
  const char* const key = quantisation.has("checkpoint_format") ? "checkpoint_format" : "format";
  LOCKSTEP_TRY(const std::string format, quantisation.text_or(key, "gptq"));
  if (format != "gptq" && format != "gptq_v2") {
    return cannot_read(quantisation, key, fmt::format("\"{}\"", format), "\"gptq\" or \"gptq_v2\"");
  }
  LOCKSTEP_TRY(GptqKeys keys, read_gptq_keys(quantisation, {}));
  if (format == "gptq_v2") keys.layout = CodedLayout::kGptqV2;
  std::vector<ModuleRule> rules;
  LOCKSTEP_TRY(const bool has_head, quantisation.boolean_or("lm_head", false));
  if (!has_head) leave_out_head(rules);
  LOCKSTEP_TRY_VOID(add_dynamic_rules(quantisation, keys, rules));
  LOCKSTEP_TRY_VOID(add_quantised_modules(quantisation, keys.module(), rules));
  return rules;
}

// ---- AWQ, FP8 ----

Result<std::vector<ModuleRule>> read_awq(const KeyReader& quantisation) {
  std::string_view key = "format";
  for (const std::string_view other : {"checkpoint_format", "version"}) {
    if (quantisation.has(other)) key = other;
  }
  LOCKSTEP_TRY(const std::string format, quantisation.text_or(key, "gemm"));
  if (lower(format) != "gemm") return cannot_read(quantisation, key, fmt::format("\"{}\"", format), "\"gemm\"");
  const char* const bits_key = quantisation.has("w_bit") ? "w_bit" : "bits";
  LOCKSTEP_TRY(const int64_t bits, quantisation.integer(bits_key, {1, 16}));
  if (bits != 4) return cannot_read(quantisation, bits_key, fmt::format("{}", bits), "4 bits");
  LOCKSTEP_TRY(const int64_t group,
               read_group(quantisation, quantisation.has("q_group_size") ? "q_group_size" : "group_size", 128));
  LOCKSTEP_TRY(const bool has_zeros, quantisation.boolean_or("zero_point", true));
  const WeightFormat weights{.bits = 4,
                             .group = group,
                             .offset = has_zeros ? GroupOffset::kZeros : GroupOffset::kNone,
                             .scale = ScaleType::kFloat16};
  std::vector<ModuleRule> rules;
  leave_out_head(rules);
  LOCKSTEP_TRY_VOID(add_modules_with_elements(quantisation, "modules_to_not_convert", Match::kPart, rules));
  rules.push_back({.match = Match::kEvery, .module = QuantisedModule{CodedLayout::kAwq, {.weights = weights}}});
  return rules;
}

Result<std::vector<ModuleRule>> read_fp8(const KeyReader& quantisation) {
  LOCKSTEP_TRY_VOID(refuse(quantisation, "modules_to_convert", "no other modules than linear ones"));
  LOCKSTEP_TRY(const std::string experts, quantisation.text_or("expert_dtype", "fp8"));
  if (experts != "fp8") return cannot_read(quantisation, "expert_dtype", fmt::format("\"{}\"", experts), "\"fp8\"");
  LOCKSTEP_TRY(const std::string scheme, quantisation.text_or("activation_scheme", "dynamic"));
  const bool is_static = lower(scheme) == "static";
  if (!is_static && lower(scheme) != "dynamic")
    return quantisation.wrong("activation_scheme", "\"dynamic\" or \"static\"");
  QuantisedModule module{CodedLayout::kBytes,
                         {.weights = {.kind = CodeKind::kE4M3, .bits = 8, .group = MatrixFormat::kWholeRow},
                          .activations = is_static ? ActivationFormat::kE4M3ByTensor : ActivationFormat::kE4M3ByToken}};
  if (const json* blocks = quantisation.find("weight_block_size")) {
    const auto is_size = [](const json& size) { return size.is_number_integer() && size >= 1 && size <= kGroups.most; };
    if (!blocks->is_array() || blocks->size() != 2 || !is_size((*blocks)[0]) || !is_size((*blocks)[1])) {
      return quantisation.wrong("weight_block_size", "the rows and columns of a block");
    }
    if ((*blocks)[1] != kE4M3GroupColumns || is_static) {
      return cannot_read(quantisation, "weight_block_size", blocks->dump(),
                         fmt::format("blocks of {} columns and dynamic activations", kE4M3GroupColumns));
    }
    module.layout = CodedLayout::kBlocks;
    module.block_rows = (*blocks)[0].get<int64_t>();
    module.format.weights.group = kE4M3GroupColumns;
    module.format.activations = ActivationFormat::kE4M3ByGroup;
  }
  std::vector<ModuleRule> rules;
  leave_out_head(rules);
  for (const std::string_view key : {"modules_to_not_convert", "ignored_layers"}) {
    LOCKSTEP_TRY_VOID(add_modules_with_elements(quantisation, key, Match::kPart, rules));
  }
  rules.push_back({.match = Match::kEvery, .module = module});
  return rules;
}

namespace {

/// Experts; everything else has elements.
Result<std::vector<ModuleRule>> read_mxfp4(const KeyReader& quantisation) {
  std::vector<ModuleRule> rules;
  LOCKSTEP_TRY_VOID(add_modules_with_elements(quantisation, "modules_to_not_convert", Match::kPart, rules));
  const WeightFormat weights{.kind = CodeKind::kE2M1, .bits = 4, .group = 32, .scale = ScaleType::kPowerOfTwo};
  rules.push_back({.match = Match::kPart,
                   .text = "mlp.experts",
                   .module = QuantisedModule{CodedLayout::kMxfp4Blocks, {.weights = weights}}});
  return rules;
}

/// The method of a file that does not name it.
std::string infer_method(const KeyReader& quantisation) {
  if (quantisation.has("quant_algo")) return "modelopt";
  if (quantisation.has("config_groups")) return "compressed-tensors";
  if (quantisation.has("load_in_4bit") || quantisation.has("load_in_8bit")) return "bitsandbytes";
  if (quantisation.has("zero_point") || quantisation.has("w_bit")) return "awq";
  return quantisation.has("bits") ? "gptq" : "unnamed";
}

ScaleType scale_type_of(DType dtype) {
  if (dtype == DType::kBFloat16) return ScaleType::kBFloat16;
  return dtype == DType::kFloat16 ? ScaleType::kFloat16 : ScaleType::kFloat32;
}

Result<std::vector<ModuleRule>> read_rules(const std::string& method, const KeyReader& quantisation, DType dtype) {
  if (method == "gptq") return read_gptq(quantisation);
  if (method == "awq") return read_awq(quantisation);
  if (method == "fp8") return read_fp8(quantisation);
  if (method == "mxfp4") return read_mxfp4(quantisation);
  if (method == "compressed-tensors") return read_compressed_tensors(quantisation, scale_type_of(dtype));
  if (method == "modelopt" || method == "modelopt_fp4") return read_model_opt(quantisation);
  return cannot_read(quantisation, "quant_method", fmt::format("quantised weights (\"{}\")", method), kMethods);
}

}  // namespace

Error cannot_read(const KeyReader& quantisation, std::string_view key, std::string_view found,
                  std::string_view expected) {
  return {
      ErrorKind::kUnsupported,
      fmt::format("[runtime/checkpoint] cannot read the weights of {}: {}: found {}, expected {}; take the model in "
                  "such a format, or unquantised with --weights q4",
                  quantisation.origin(), key, found, expected)};
}

Result<void> add_modules_with_elements(const KeyReader& quantisation, std::string_view key, Match match,
                                       std::vector<ModuleRule>& rules) {
  const json* list = quantisation.find(key);
  if (list == nullptr) return ok();
  if (!list->is_array()) return quantisation.wrong(key, "a list of names");
  for (const json& name : *list) {
    if (!name.is_string()) return quantisation.wrong(key, "a list of names");
    rules.push_back({.match = match, .text = name.get<std::string>()});
  }
  return ok();
}

Result<QuantisationConfig> read_quantisation(const json& quantisation, std::string_view origin, DType dtype) {
  QuantisationConfig config{.origin = fmt::format("{}: quantization_config", origin)};
  const KeyReader reader(quantisation, config.origin);
  LOCKSTEP_TRY(config.method, reader.text_or("quant_method", infer_method(reader)));
  LOCKSTEP_TRY(config.rules, read_rules(config.method, reader, dtype));
  LOCKSTEP_TRY_VOID(ModuleRules::compile(config.rules, config.origin));
  return config;
}

}  // namespace lockstep::checkpoint
