// A Llama of two layers; tests choose its sizes.
#pragma once

#include "runtime/checkpoint/model_spec.h"

namespace lockstep::shards {

struct SmallLlama {
  int64_t hidden = 0, query_heads = 0, key_value_heads = 0, intermediate = 0, vocabulary = 0, positions = 0;
  int64_t head_dim = 16;
};

inline checkpoint::ModelSpec spec_of(const SmallLlama& sizes) {
  checkpoint::ModelSpec spec;
  spec.model_type = "llama";
  spec.hidden_size = spec.embedding_size = sizes.hidden;
  spec.attention_scale = 0.35;
  spec.rope.rotated = sizes.head_dim;
  spec.layers = 2;
  spec.query_heads = sizes.query_heads;
  spec.key_value_heads = sizes.key_value_heads;
  spec.head_dim = sizes.head_dim;
  spec.intermediate_size = sizes.intermediate;
  spec.vocabulary = sizes.vocabulary;
  spec.max_positions = sizes.positions;
  return spec;
}

}  // namespace lockstep::shards
