// One layer of a small decoder as rank 0 of two would run it: every kind of value and most operations.
#pragma once

#include "runtime/graph/builder.h"

namespace lockstep::graph {

/// Two slots, hidden size 8, three query heads of 4 (two on rank 0), an MLP of 12 columns, a vocabulary of 10.
inline Graph tiny_decoder(bool has_biases = false) {
  GraphBuilder b({.name = "decode", .ranks = 2, .rank = 0, .rows = 2, .slots = 2});
  const TensorType per_slot{DType::kInt32, {2}};
  const auto weight = [&](std::string name, int64_t rows, int64_t columns) {
    return b.weight(name, {DType::kBFloat16, {rows, columns}}, {{name, {{0, rows}, {0, columns}}}});
  };
  const auto bias = [&](std::string name, int64_t rows) -> std::optional<ValueId> {
    if (!has_biases) return std::nullopt;
    return b.weight(name, {DType::kBFloat16, {rows}}, {{name, {{0, rows}}}});
  };
  const auto norm = [&](std::string name) { return b.weight(name, {DType::kBFloat16, {8}}, {{name, {{0, 8}}}}); };
  const BlockSplit vocabulary{{0, 1, 2}};
  const BlockSplit heads{{0, 2, 3}};
  const BlockSplit granules{{0, 3, 6}};

  const ValueId ids = b.state("last_id", per_slot);
  const ValueId length = b.state("length", per_slot);
  const ValueId slot = b.running_slots(b.state("active", per_slot), b.state("finished", per_slot));
  const ValueId frequencies = b.constant("rope.frequencies", {1.0f, 0.1f});
  const ValueId table = weight("embed_tokens.weight", 5, 8);
  const ValueId h0 = b.all_reduce(b.embedding(ids, table, 0), vocabulary, DType::kBFloat16);

  const ValueId n0 = b.rms_norm(h0, norm("layers.0.input_layernorm.weight"), 1e-5);
  const std::string attention = "layers.0.self_attn.";
  const ValueId q = b.linear(n0, weight(attention + "q_proj.weight", 8, 8), bias(attention + "q_proj.bias", 8));
  const ValueId k = b.linear(n0, weight(attention + "k_proj.weight", 4, 8), bias(attention + "k_proj.bias", 4));
  const ValueId v = b.linear(n0, weight(attention + "v_proj.weight", 4, 8), bias(attention + "v_proj.bias", 4));
  const TensorType cache{DType::kBFloat16, {2, 1, 16, 4}};
  const ValueId k_cache = b.state("kv.0.k", cache);
  const ValueId v_cache = b.state("kv.0.v", cache);
  b.kv_append(b.rope({k, length, frequencies}, /*heads=*/1, /*scale=*/1.0), k_cache, slot, length);
  b.kv_append(v, v_cache, slot, length);
  const ValueId turned = b.rope({q, length, frequencies}, /*heads=*/2, /*scale=*/1.0);
  const ValueId mixed =
      b.attention(turned, k_cache, v_cache, slot, length, {.head_map = {0, 0}, .scale = 0.5, .kernel = "decode"});
  const ValueId partial = b.linear_blocks(mixed, weight(attention + "o_proj.weight", 8, 8), heads, 4);
  const ValueId h1 = b.add(h0, b.all_reduce(partial, heads, DType::kBFloat16));

  const ValueId n1 = b.rms_norm(h1, norm("layers.0.post_attention_layernorm.weight"), 1e-5);
  const ValueId gate =
      b.linear(n1, weight("layers.0.mlp.gate_proj.weight", 6, 8), bias("layers.0.mlp.gate_proj.bias", 6));
  const ValueId up = b.linear(n1, weight("layers.0.mlp.up_proj.weight", 6, 8), bias("layers.0.mlp.up_proj.bias", 6));
  const ValueId gated = b.gated_activation(gate, up, "silu");
  const ValueId down = b.linear_blocks(gated, weight("layers.0.mlp.down_proj.weight", 8, 6), granules, 2);
  const ValueId h2 = b.add(h1, b.all_reduce(down, granules, DType::kBFloat16));

  const ValueId logits = b.all_gather(b.linear(h2, table, std::nullopt, DType::kFloat32), {5, 5});
  b.advance(length, slot);
  b.output("logits", logits);
  b.output("hidden", h2);
  return std::move(b).finish();
}

}  // namespace lockstep::graph
