// One reader per model type: the keys, defaults and aliases of configuration_<type>.py in transformers. Private to this
// folder.
#pragma once

#include "runtime/checkpoint/json_document.h"
#include "runtime/checkpoint/model_spec.h"

namespace lockstep::checkpoint {

// spec_plain.cpp: LayerNorm, an MLP without a gate, as many key/value heads as query heads
Result<ModelSpec> read_gpt2(const KeyReader& config);
Result<ModelSpec> read_opt(const KeyReader& config);
Result<ModelSpec> read_gptj(const KeyReader& config);
Result<ModelSpec> read_gpt_neox(const KeyReader& config);
Result<ModelSpec> read_bloom(const KeyReader& config);

// spec_gated.cpp: Llama and what differs from it in few places
Result<ModelSpec> read_llama(const KeyReader& config);
Result<ModelSpec> read_mistral(const KeyReader& config);
Result<ModelSpec> read_ministral(const KeyReader& config);
Result<ModelSpec> read_qwen2(const KeyReader& config);
Result<ModelSpec> read_qwen3(const KeyReader& config);
Result<ModelSpec> read_phi3(const KeyReader& config);

// spec_gemma.cpp
Result<ModelSpec> read_gemma2(const KeyReader& config);
Result<ModelSpec> read_gemma3_text(const KeyReader& config);
/// The text part of a model that also sees images.
Result<ModelSpec> read_gemma3(const KeyReader& config);

// spec_experts.cpp: mixtures of experts
Result<ModelSpec> read_mixtral(const KeyReader& config);
Result<ModelSpec> read_gpt_oss(const KeyReader& config);

}  // namespace lockstep::checkpoint
