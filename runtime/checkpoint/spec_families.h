// The table of model types, with a reader for each. Keys, defaults and aliases are those of configuration_<type>.py in
// transformers. Private to this folder.
#pragma once

#include <span>
#include <string_view>

#include "runtime/checkpoint/json_document.h"
#include "runtime/checkpoint/model_spec.h"

namespace lockstep::checkpoint {

struct ModelType {
  std::string_view name;
  std::string_view architecture;  // the class in transformers
  Result<ModelSpec> (*read)(const KeyReader&);
  // Keys without effect beside the common ones (spec_keys.cpp). A key that is neither read nor listed is an error.
  std::span<const std::string_view> idle_keys = {};
};

std::span<const ModelType> plain_types();  // LayerNorm, an MLP without a gate
std::span<const ModelType> gated_types();  // Llama and close variants
std::span<const ModelType> dense_types();  // variants of Llama
std::span<const ModelType> gemma_types();
std::span<const ModelType> recurrent_types();  // layers with a recurrence beside those with attention
std::span<const ModelType> expert_types();     // mixtures of experts
std::span<const ModelType> latent_types();     // latent attention

/// Mistral 4 as the text part of a multimodal model.
Result<ModelSpec> read_mistral4_part(const KeyReader& config);

}  // namespace lockstep::checkpoint
