// Weights of the tiny models of this folder.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/model/hashed_weights.h"

namespace lockstep::model {

/// For `kTinyLlama`, or for more heads of its size.
inline std::vector<HashedTensor> llama_tensors(int64_t heads = 2, int64_t key_value_heads = 1) {
  const int64_t query = 4 * heads, key_value = 4 * key_value_heads;
  const HashedFloats wide{.spread = 0.5f}, norm{.centre = 1.0f, .spread = 0.25f};
  std::vector<HashedTensor> tensors = {{"model.embed_tokens.weight", {32, 8}, HashedFloats{.spread = 1.0f}},
                                       {"model.norm.weight", {8}, norm},
                                       {"lm_head.weight", {32, 8}, HashedFloats{.spread = 1.0f}}};
  for (const std::string layer : {"model.layers.0.", "model.layers.1."}) {
    tensors.push_back({layer + "input_layernorm.weight", {8}, norm});
    tensors.push_back({layer + "post_attention_layernorm.weight", {8}, norm});
    tensors.push_back({layer + "self_attn.q_proj.weight", {query, 8}, wide});
    tensors.push_back({layer + "self_attn.k_proj.weight", {key_value, 8}, wide});
    tensors.push_back({layer + "self_attn.v_proj.weight", {key_value, 8}, wide});
    tensors.push_back({layer + "self_attn.o_proj.weight", {8, query}, wide});
    tensors.push_back({layer + "mlp.gate_proj.weight", {16, 8}, wide});
    tensors.push_back({layer + "mlp.up_proj.weight", {16, 8}, wide});
    tensors.push_back({layer + "mlp.down_proj.weight", {8, 16}, wide});
  }
  return tensors;
}

}  // namespace lockstep::model
