// The formats of a model's matrices from its config alone.
#include <fmt/format.h>

#include "runtime/checkpoint/quantisation_config.h"
#include "runtime/checkpoint/stored_names.h"

namespace lockstep::checkpoint {
namespace {

constexpr int64_t kMostComparisons = int64_t{1} << 17;  // rules times layers

/// The matrices of a layer that products can read in codes, one expert for all.
std::vector<std::string> matrices_of_layer(const ModelSpec& spec, int64_t layer) {
  std::vector<std::string> names;
  const auto add = [&](std::string_view part, std::initializer_list<std::string_view> projections) {
    for (const std::string_view name : projections) {
      names.push_back(fmt::format("model.layers.{}.{}{}_proj.weight", layer, part, name));
    }
  };
  if (spec.has_delta_rule(layer)) {
    add("linear_attn.", {"q", "k", "v", "z", "o"});
  } else if (spec.latent) {
    if (spec.latent->query_rank > 0) {
      add("self_attn.", {"q_a", "q_b", "kv_a", "o"});
    } else {
      add("self_attn.", {"q", "kv_a", "o"});
    }
  } else {
    add("self_attn.", {"q", "k", "v", "o"});
    if (spec.attention_gate) add("self_attn.", {"gate"});
  }
  if (spec.has_experts(layer)) {
    add("mlp.experts.0.", {"gate", "up", "down"});
    if (spec.shared_expert_size > 0) add("mlp.shared_expert.", {"gate", "up", "down"});
  } else if (spec.mlp == Mlp::kPlain) {
    add("mlp.", {"up", "down"});
  } else {
    add("mlp.", {"gate", "up", "down"});
  }
  if (spec.layer_input_size > 0) {
    for (const char* name : {"per_layer_input_gate", "per_layer_projection"}) {
      names.push_back(fmt::format("model.layers.{}.{}.weight", layer, name));
    }
  }
  return names;
}

/// The names of the modules that a file of the family may keep the matrix in.
std::vector<std::string> modules_of(const FamilyNames& family, std::string_view matrix) {
  constexpr std::string_view kEndings[] = {".weight", "_blocks"};
  std::vector<std::string> modules;
  for (const std::string_view prefix : family.prefixes) {
    if (prefix.empty() && family.prefixes.size() > 1) continue;  // of a base model, which no library quantises
    for (std::string& name : possible_names(family, prefix, matrix)) {
      for (const std::string_view ending : kEndings) {
        if (name.ends_with(ending)) name.resize(name.size() - ending.size());
      }
      modules.push_back(std::move(name));
    }
  }
  return modules;
}

}  // namespace

Result<WeightFormats> expected_formats(const QuantisationConfig& quantisation, const ModelSpec& spec) {
  LOCKSTEP_TRY(const ModuleRules rules, ModuleRules::compile(quantisation.rules, quantisation.origin));
  if (rules.patterns() * spec.layers > kMostComparisons) {
    return Error{
        ErrorKind::kUnsupported,
        fmt::format("[runtime/checkpoint] cannot use {}: found {} rules for names in {} layers, expected at most "
                    "{}; join some of them",
                    quantisation.origin, rules.patterns(), spec.layers, kMostComparisons / spec.layers)};
  }
  const FamilyNames family = names_of_family(spec.model_type);
  std::vector<FormatException> formats;
  const auto add = [&](const std::string& matrix) -> Result<void> {
    LOCKSTEP_TRY(const auto module, rules.find(modules_of(family, matrix)));
    auto& added = formats.emplace_back(FormatException{without_expert(matrix)});
    if (module) added.format = module->format;
    return ok();
  };
  for (int64_t layer = 0; layer < spec.layers; ++layer) {
    for (const std::string& matrix : matrices_of_layer(spec, layer)) LOCKSTEP_TRY_VOID(add(matrix));
  }
  if (spec.layer_input_size > 0) LOCKSTEP_TRY_VOID(add("model.per_layer_model_projection.weight"));
  if (spec.tied_embeddings) {
    formats.push_back({"lm_head.weight", std::nullopt});  // the table of embeddings
  } else {
    LOCKSTEP_TRY_VOID(add("lm_head.weight"));
  }
  return compact_formats(std::move(formats));
}

}  // namespace lockstep::checkpoint
