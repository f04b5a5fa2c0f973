// Readers of the configs of compressed-tensors and of ModelOpt.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/checkpoint/quantisation_config.h"

namespace lockstep::checkpoint {
namespace {

using nlohmann::json;
using Match = ModuleRule::Match;

constexpr std::string_view kPattern = "re:";
constexpr std::string_view kLinear = "Linear";  // the class, for every module

/// `weights` or `input_activations` of a group.
struct Scheme {
  int64_t bits = 8;
  bool is_float = false;
  bool symmetric = true;
  bool dynamic = false;
  std::string strategy;
  int64_t group = -1;
};

Result<Scheme> read_scheme(const KeyReader& keys) {
  Scheme scheme;
  LOCKSTEP_TRY(scheme.bits, keys.integer_or("num_bits", 8, {1, 64}));
  LOCKSTEP_TRY(const std::string type, keys.text_or("type", "int"));
  if (type != "int" && type != "float") return keys.wrong("type", "\"int\" or \"float\"");
  scheme.is_float = type == "float";
  LOCKSTEP_TRY(scheme.symmetric, keys.boolean_or("symmetric", true));
  const json* dynamic = keys.find("dynamic");  // or "local": of groups, under a constant scale
  scheme.dynamic = dynamic != nullptr && (*dynamic == true || dynamic->is_string());
  LOCKSTEP_TRY(scheme.group, keys.integer_or("group_size", -1, {-1, int64_t{1} << 24}));
  const char* const otherwise = scheme.group > 0 ? "group" : keys.has("group_size") ? "channel" : "tensor";
  LOCKSTEP_TRY(scheme.strategy, keys.text_or("strategy", otherwise));
  const bool has_groups = scheme.strategy == "group" || scheme.strategy == "tensor_group";
  if (has_groups && scheme.group < 1) return keys.wrong("group_size", "the columns of a group");
  return scheme;
}

/// What a product makes of its input.
Result<ActivationFormat> read_activations(const KeyReader& group) {
  LOCKSTEP_TRY(const auto keys, group.object("input_activations"));
  if (!keys) return ActivationFormat::kElements;
  LOCKSTEP_TRY(const Scheme scheme, read_scheme(*keys));
  const bool by_token = scheme.strategy == "token" && scheme.dynamic && scheme.symmetric && scheme.bits == 8;
  if (by_token) return scheme.is_float ? ActivationFormat::kE4M3ByToken : ActivationFormat::kInt8ByToken;
  if (scheme.is_float && scheme.symmetric) {
    if (scheme.bits == 4) return ActivationFormat::kE2M1ByGroup;
    if (scheme.bits == 8 && scheme.strategy == "tensor" && !scheme.dynamic) return ActivationFormat::kE4M3ByTensor;
    const bool by_group = scheme.strategy == "group" && scheme.group == kE4M3GroupColumns && scheme.dynamic;
    if (scheme.bits == 8 && by_group) return ActivationFormat::kE4M3ByGroup;
  }
  return cannot_read(
      *keys, "strategy",
      fmt::format("{} activations of {} bits by {}{}{}", scheme.is_float ? "float" : "int", scheme.bits,
                  scheme.strategy, scheme.dynamic ? ", dynamic" : ", static", scheme.symmetric ? "" : ", asymmetric"),
      "symmetric ones in 8 bits: by token and dynamic, or of floats by tensor and static or by groups of 128");
}

/// The type of the scales if the config has one.
Result<ScaleType> read_scale_type(const KeyReader& weights, ScaleType otherwise) {
  LOCKSTEP_TRY(std::string name, weights.text_or("scale_dtype", ""));
  if (name.starts_with("torch.")) name = name.substr(6);
  if (name == "float32") return ScaleType::kFloat32;
  if (name == "bfloat16") return ScaleType::kBFloat16;
  return name == "float16" ? ScaleType::kFloat16 : otherwise;
}

Result<int64_t> read_block_rows(const KeyReader& weights) {
  const json* blocks = weights.find("block_structure");
  const auto is_size = [](const json& size) {
    return size.is_number_integer() && size >= 1 && size <= (int64_t{1} << 24);
  };
  if (blocks == nullptr || !blocks->is_array() || blocks->size() != 2 || !is_size((*blocks)[0]) ||
      !is_size((*blocks)[1])) {
    return weights.wrong("block_structure", "the rows and columns of a block");
  }
  if ((*blocks)[1] != kE4M3GroupColumns) {
    return cannot_read(weights, "block_structure", blocks->dump(),
                       fmt::format("blocks of {} columns", kE4M3GroupColumns));
  }
  return (*blocks)[0].get<int64_t>();
}

Result<void> read_integers(const KeyReader& weights, const Scheme& scheme, bool packed, QuantisedModule& module) {
  module.layout = packed ? CodedLayout::kPacked : CodedLayout::kBytes;
  if (scheme.bits != 8 && !(packed && scheme.bits == 4)) {
    return cannot_read(weights, "num_bits", fmt::format("{}", scheme.bits), packed ? "4 or 8 bits" : "8 bits");
  }
  if (scheme.strategy != "group" && scheme.strategy != "channel" && (packed || scheme.strategy != "tensor")) {
    return cannot_read(weights, "strategy", fmt::format("\"{}\"", scheme.strategy), "\"group\" or \"channel\"");
  }
  const json* order = weights.find("actorder");
  module.format.ordered = order != nullptr && (*order == true || *order == "group" || *order == "dynamic");
  module.format.weights.bits = static_cast<int>(scheme.bits);
  module.format.weights.offset = scheme.symmetric ? GroupOffset::kNone : GroupOffset::kZeros;
  return ok();
}

Result<void> read_floats(const KeyReader& weights, const Scheme& scheme, QuantisedModule& module) {
  module.layout = CodedLayout::kBytes;
  if (scheme.strategy == "block") {
    module.layout = CodedLayout::kBlocks;
    module.format.weights.group = kE4M3GroupColumns;
    LOCKSTEP_TRY(module.block_rows, read_block_rows(weights));
    return ok();
  }
  for (const std::string_view known : {"tensor", "channel", "group"}) {
    if (scheme.strategy == known) return ok();
  }
  return cannot_read(weights, "strategy", fmt::format("\"{}\"", scheme.strategy),
                     "\"tensor\", \"channel\", \"group\" or \"block\"");
}

/// Floats of 4 or 8 bits with the given groups; `scales`: of those in e8m0.
Result<void> read_small_groups(const KeyReader& weights, const Scheme& scheme, int64_t group, CodedLayout layout,
                               ScaleType scales, QuantisedModule& module) {
  if (scheme.group != group) {
    return cannot_read(weights, "group_size", fmt::format("{}", scheme.group), fmt::format("{}", group));
  }
  module.layout = layout;
  module.format.weights.scale = scales;
  return ok();
}

/// The matrices of one group.
Result<QuantisedModule> read_module(const KeyReader& group, const KeyReader& weights, std::string_view format,
                                    ScaleType scales) {
  LOCKSTEP_TRY(const Scheme scheme, read_scheme(weights));
  const auto is_format = [&](std::string_view name, bool is_float, int64_t bits) {
    return (format == name || (format == "naive-quantized" && bits == 8)) && scheme.is_float == is_float &&
           (bits == 0 || scheme.bits == bits);
  };
  QuantisedModule module;
  module.format.weights.group = scheme.group > 0 ? scheme.group : MatrixFormat::kWholeRow;
  LOCKSTEP_TRY(module.format.weights.scale, read_scale_type(weights, scales));
  LOCKSTEP_TRY(module.format.activations, read_activations(group));
  if (scheme.is_float && !scheme.symmetric) return cannot_read(weights, "symmetric", "false", "true for floats");
  if (scheme.is_float) {
    module.format.weights.bits = static_cast<int>(scheme.bits);
    module.format.weights.kind = scheme.bits == 4 ? CodeKind::kE2M1 : CodeKind::kE4M3;
  }
  Result<void> read = cannot_read(
      weights, "num_bits",
      fmt::format("{} of {} bits in the format \"{}\"", scheme.is_float ? "floats" : "integers", scheme.bits, format),
      "integers in pack-quantized (4 or 8 bits) or int-quantized (8), floats in float-quantized (8), "
      "nvfp4-pack-quantized, mxfp4-pack-quantized (4) or mxfp8-quantized (8)");
  if (is_format("pack-quantized", false, 0)) read = read_integers(weights, scheme, /*packed=*/true, module);
  if (is_format("int-quantized", false, 8)) read = read_integers(weights, scheme, /*packed=*/false, module);
  if (is_format("float-quantized", true, 8)) read = read_floats(weights, scheme, module);
  if (is_format("nvfp4-pack-quantized", true, 4)) {
    read = read_small_groups(weights, scheme, 16, CodedLayout::kNvfp4, ScaleType::kFloat32, module);
  }
  if (is_format("mxfp4-pack-quantized", true, 4)) {
    read = read_small_groups(weights, scheme, 32, CodedLayout::kMxfp4, ScaleType::kPowerOfTwo, module);
  }
  if (format == "mxfp8-quantized" && scheme.is_float && scheme.bits == 8) {
    read = read_small_groups(weights, scheme, 32, CodedLayout::kBytes, ScaleType::kPowerOfTwo, module);
  }
  LOCKSTEP_TRY_VOID(std::move(read));
  return module;
}

/// The rules of one group: of names, of expressions, of the class of all linear modules.
struct Targets {
  std::vector<ModuleRule> names, patterns, classes;
};

Result<void> add_group(const KeyReader& quantisation, const KeyReader& group, std::string_view whole_format,
                       ScaleType scales, Targets& targets) {
  LOCKSTEP_TRY(const auto weights, group.object("weights"));
  if (!weights) return cannot_read(group, "weights", "nothing", "the weights' scheme");
  if (const json* outputs = group.find("output_activations")) {
    return cannot_read(group, "output_activations", describe(*outputs), "none");
  }
  LOCKSTEP_TRY(const std::string format, group.text_or("format", whole_format));
  LOCKSTEP_TRY(const QuantisedModule module, read_module(group, *weights, format, scales));
  const json* names = group.find("targets");
  if (names == nullptr || !names->is_array()) return group.wrong("targets", "a list of names");
  for (const json& name : *names) {
    if (!name.is_string()) return group.wrong("targets", "a list of names");
    const auto text = name.get<std::string>();
    if (text == kLinear) {
      targets.classes.push_back({.match = Match::kEvery, .module = module});
    } else if (text.starts_with(kPattern)) {
      targets.patterns.push_back({.match = Match::kPattern, .text = text.substr(kPattern.size()), .module = module});
    } else {
      targets.names.push_back({.match = Match::kName, .text = text, .module = module});
    }
  }
  if (targets.classes.size() > 1) {
    return cannot_read(quantisation, "config_groups", "two groups for \"Linear\"", "at most one");
  }
  return ok();
}

/// The rules for the modules of the list `ignore`.
Result<void> add_ignored(const KeyReader& quantisation, std::vector<ModuleRule>& rules) {
  LOCKSTEP_TRY_VOID(add_modules_with_elements(quantisation, "ignore", Match::kName, rules));
  for (ModuleRule& rule : rules) {
    if (!rule.text.starts_with(kPattern)) continue;
    rule = {.match = Match::kPattern, .text = rule.text.substr(kPattern.size())};
  }
  return ok();
}

Result<void> refuse_other_options(const KeyReader& quantisation) {
  LOCKSTEP_TRY(const auto sparsity, quantisation.object("sparsity_config"));
  if (sparsity) {
    LOCKSTEP_TRY(const std::string format, sparsity->text_or("format", "dense"));
    if (format != "dense") return cannot_read(*sparsity, "format", fmt::format("\"{}\"", format), "\"dense\"");
  }
  LOCKSTEP_TRY(const auto transforms, quantisation.object("transform_config"));
  if (transforms) {
    const json* groups = transforms->find("config_groups");
    if (groups != nullptr && !groups->empty()) {
      return cannot_read(*transforms, "config_groups", describe(*groups), "no transforms of activations");
    }
  }
  return ok();
}

}  // namespace

/// Names of modules precede expressions, and these the class; expressions are in alphabetical order, as
/// compressed_tensors.utils.match_targets has them.
Result<std::vector<ModuleRule>> read_compressed_tensors(const KeyReader& quantisation, ScaleType scales) {
  LOCKSTEP_TRY_VOID(refuse_other_options(quantisation));
  LOCKSTEP_TRY(const std::string format, quantisation.text_or("format", "unnamed"));
  LOCKSTEP_TRY(const auto groups, quantisation.object("config_groups"));
  if (!groups) return quantisation.wrong("config_groups", "an object of groups");
  Targets targets;
  for (const auto& [name, ignored] : quantisation.find("config_groups")->items()) {
    LOCKSTEP_TRY(const auto group, groups->object(name));
    if (!group) return groups->wrong(name, "an object");
    LOCKSTEP_TRY_VOID(add_group(quantisation, *group, format, scales, targets));
  }
  std::ranges::stable_sort(targets.patterns, {}, &ModuleRule::text);
  std::vector<ModuleRule> rules;
  LOCKSTEP_TRY_VOID(add_ignored(quantisation, rules));
  for (auto* const part : {&targets.names, &targets.patterns, &targets.classes}) {
    std::ranges::move(*part, std::back_inserter(rules));
  }
  return rules;
}

Result<std::vector<ModuleRule>> read_model_opt(const KeyReader& quantisation) {
  LOCKSTEP_TRY(const std::string algorithm, quantisation.text_or("quant_algo", "unnamed"));
  QuantisedModule module;
  if (algorithm == "NVFP4") {
    LOCKSTEP_TRY(const int64_t group, quantisation.integer_or("group_size", 16, {1, int64_t{1} << 24}));
    if (group != 16) return cannot_read(quantisation, "group_size", fmt::format("{}", group), "16");
    module = {
        CodedLayout::kNvfp4Product,
        {.weights = {.kind = CodeKind::kE2M1, .bits = 4, .group = 16}, .activations = ActivationFormat::kE2M1ByGroup}};
  } else if (algorithm == "FP8") {
    module = {CodedLayout::kBytes,
              {.weights = {.kind = CodeKind::kE4M3, .bits = 8, .group = MatrixFormat::kWholeRow},
               .activations = ActivationFormat::kE4M3ByTensor}};
  } else {
    return cannot_read(quantisation, "quant_algo", fmt::format("\"{}\"", algorithm), "\"NVFP4\" or \"FP8\"");
  }
  std::vector<ModuleRule> rules;
  for (const std::string_view key : {"exclude_modules", "ignore"}) {
    LOCKSTEP_TRY_VOID(add_modules_with_elements(quantisation, key, Match::kWildcard, rules));
  }
  rules.push_back({.match = Match::kEvery, .module = module});
  return rules;
}

}  // namespace lockstep::checkpoint
