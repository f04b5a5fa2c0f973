// Gemma 2, 3, 3n and 4, as model types of transformers.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "runtime/gguf/config_writer.h"
#include "runtime/gguf/metadata.h"

namespace lockstep::gguf {
namespace {

using nlohmann::json;

/// The scale of scores: the largest models differ, as llama.cpp has it by their layers.
Result<void> write_gemma_scale(ConfigWriter& writer, int64_t layers_of_largest) {
  json& config = writer.config();
  LOCKSTEP_TRY(const int64_t layers, writer.integer("block_count"));
  LOCKSTEP_TRY(const int64_t hidden, writer.integer("embedding_length"));
  LOCKSTEP_TRY(const int64_t heads, writer.integer("attention.head_count"));
  LOCKSTEP_TRY(const int64_t head, writer.integer("attention.key_length"));
  if (heads == 0) return writer.wrong("attention.head_count", "found 0, expected at least 1");
  config["query_pre_attn_scalar"] = layers == layers_of_largest ? hidden / heads : head;
  return ok();
}

/// A cap, or null for none.
Result<void> write_cap(ConfigWriter& writer, std::string_view key, std::string_view name) {
  LOCKSTEP_TRY(const double cap, writer.number_or(key, 0.0));
  writer.config()[std::string(name)] = cap > 0.0 ? json(cap) : json();
  return ok();
}

Result<void> finish_gemma2(ConfigWriter& writer) {
  constexpr KeyPair kKeys[] = {{"attention.sliding_window", "sliding_window"},
                               {"attn_logit_softcapping", "attn_logit_softcapping"},
                               {"final_logit_softcapping", "final_logit_softcapping"}};
  LOCKSTEP_TRY_VOID(writer.copy(kKeys));  // absent caps are those of the family
  return write_gemma_scale(writer, /*layers_of_largest=*/46);
}

Result<void> finish_gemma3(ConfigWriter& writer) {
  json& config = writer.config();
  LOCKSTEP_TRY(const int64_t window, writer.integer_or("attention.sliding_window", 0));
  config["sliding_window"] = window > 0 ? json(window) : json();
  LOCKSTEP_TRY_VOID(write_cap(writer, "final_logit_softcapping", "final_logit_softcapping"));
  LOCKSTEP_TRY(config["rope_local_base_freq"], writer.number_or("rope.freq_base_swa", 10000.0));
  if (!writer.has("rope.freq_base")) config["rope_theta"] = 1e6;
  LOCKSTEP_TRY_VOID(write_layer_types(writer));
  return write_gemma_scale(writer, /*layers_of_largest=*/62);
}

// ---- Gemma 4: other heads in the layers without a window, caches that layers share, an input of each layer ----

/// The value of the first layer with a window, or without one, of a list or of a value for all.
json of_layer_kind(const json& values, const json& layer_types, const char* kind) {
  if (!values.is_array()) return values;
  for (size_t layer = 0; layer < std::min(values.size(), layer_types.size()); ++layer) {
    if (layer_types[layer] == kind) return values[layer];
  }
  return json();
}

/// Widths and numbers of heads, which differ between the two kinds of layers.
Result<void> write_gemma4_heads(ConfigWriter& writer) {
  json& config = writer.config();
  LOCKSTEP_TRY(const json heads, writer.value("attention.head_count_kv"));
  const json types = config.value("layer_types", json::array());
  config["num_key_value_heads"] = of_layer_kind(heads, types, "sliding_attention");
  if (heads.is_array()) config["num_global_key_value_heads"] = of_layer_kind(heads, types, "full_attention");
  constexpr KeyPair kWidths[] = {{"attention.key_length", "global_head_dim"},
                                 {"attention.key_length_swa", "head_dim"},
                                 {"attention.shared_kv_layers", "num_kv_shared_layers"}};
  LOCKSTEP_TRY_VOID(writer.copy(kWidths));
  const auto full = std::ranges::find(types, json("full_attention"));
  if (full == types.end()) return ok();
  config["attention_k_eq_v"] = !writer.has_tensor(fmt::format("blk.{}.attn_v.weight", full - types.begin()));
  return ok();
}

/// Layers without a window turn the pairs whose divisor in the tensor is 1.
Result<void> write_gemma4_ropes(ConfigWriter& writer) {
  json& config = writer.config();
  writer.erase("rope_theta");
  LOCKSTEP_TRY(const double theta, writer.number_or("rope.freq_base", 1e6));
  LOCKSTEP_TRY(const double local, writer.number_or("rope.freq_base_swa", 10000.0));
  LOCKSTEP_TRY(const std::vector<float> divisors, writer.floats("rope_freqs.weight"));
  const auto turning = static_cast<double>(std::ranges::count(divisors, 1.0F));
  config["rope_parameters"] = {{"full_attention",
                                {{"rope_type", "proportional"},
                                 {"partial_rotary_factor", turning / static_cast<double>(divisors.size())},
                                 {"rope_theta", theta}}},
                               {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", local}}}};
  return ok();
}

/// The layers that share a cache may have an MLP of twice the width.
Result<void> write_gemma4_mlp(ConfigWriter& writer) {
  json& config = writer.config();
  LOCKSTEP_TRY(const json inner, writer.value("feed_forward_length"));
  config["use_double_wide_mlp"] = inner.is_array();
  if (inner.is_array()) config["intermediate_size"] = inner.front();
  LOCKSTEP_TRY(const int64_t experts, writer.integer_or("expert_count", 0));
  config["enable_moe_block"] = experts > 0;
  if (experts == 0) return ok();
  constexpr KeyPair kKeysOfExperts[] = {{"expert_count", "num_experts"},
                                        {"expert_used_count", "top_k_experts"},
                                        {"expert_feed_forward_length", "moe_intermediate_size"}};
  return writer.copy(kKeysOfExperts);
}

Result<void> finish_gemma4(ConfigWriter& writer) {
  json& config = writer.config();
  LOCKSTEP_TRY_VOID(write_layer_types(writer));
  LOCKSTEP_TRY_VOID(write_gemma4_heads(writer));
  LOCKSTEP_TRY_VOID(write_gemma4_ropes(writer));
  LOCKSTEP_TRY_VOID(write_gemma4_mlp(writer));
  LOCKSTEP_TRY_VOID(write_cap(writer, "final_logit_softcapping", "final_logit_softcapping"));
  LOCKSTEP_TRY(config["hidden_size_per_layer_input"], writer.integer_or("embedding_length_per_layer_input", 0));
  if (const TensorRecord* table = writer.model().find_tensor("per_layer_token_embd.weight")) {
    config["vocab_size_per_layer_input"] = table->shape.front();
  }
  constexpr KeyPair kWindow[] = {{"attention.sliding_window", "sliding_window"}};
  return writer.copy(kWindow);
}

// ---- Gemma 3n ----

/// The part of the gates that each layer drops: that of a normal distribution below the multiple of its deviation.
Result<void> write_sparsity(ConfigWriter& writer) {
  constexpr double kDigits = 1e6;  // of the part, from a multiple in float32
  LOCKSTEP_TRY(const std::vector<double> multiples,
               numbers_of(writer.model().parts.front(), writer.full("activation_sparsity_scale")));
  if (multiples.empty()) return ok();
  json parts = json::array();
  for (const double multiple : multiples) {
    const double part = std::erfc(-multiple / std::numbers::sqrt2) / 2;
    const double rounded = std::round(part * kDigits) / kDigits;
    parts.push_back(std::abs(part - rounded) < 1e-7 ? rounded : part);
  }
  writer.config()["activation_sparsity_pattern"] = std::move(parts);
  return ok();
}

Result<void> finish_gemma3n(ConfigWriter& writer) {
  constexpr KeyPair kKeys[] = {{"attention.sliding_window", "sliding_window"},
                               {"attention.shared_kv_layers", "num_kv_shared_layers"},
                               {"altup.num_inputs", "altup_num_inputs"},
                               {"altup.active_idx", "altup_active_idx"},
                               {"embedding_length_per_layer_input", "hidden_size_per_layer_input"},
                               {"final_logit_softcapping", "final_logit_softcapping"}};
  json& config = writer.config();
  LOCKSTEP_TRY_VOID(writer.copy(kKeys));
  LOCKSTEP_TRY(config["rope_local_base_freq"], writer.number_or("rope.freq_base_swa", 10000.0));
  if (!writer.has("rope.freq_base")) config["rope_theta"] = 1e6;
  LOCKSTEP_TRY_VOID(write_layer_types(writer));
  LOCKSTEP_TRY_VOID(write_sparsity(writer));
  if (const TensorRecord* const laurel = writer.model().find_tensor("blk.0.laurel_l.weight")) {
    config["laurel_rank"] = laurel->shape.front();
  }
  if (const TensorRecord* const table = writer.model().find_tensor("per_layer_token_embd.weight")) {
    config["vocab_size_per_layer_input"] = table->shape.front();
  }
  return ok();
}

constexpr Architecture kGemma[] = {
    {"gemma2", "gemma2", "rms_norm_eps", finish_gemma2},
    {"gemma3", "gemma3_text", "rms_norm_eps", finish_gemma3},
    {"gemma3n", "gemma3n_text", "rms_norm_eps", finish_gemma3n},
    {"gemma4", "gemma4_text", "rms_norm_eps", finish_gemma4, /*own_ropes=*/true},
};

}  // namespace

std::span<const Architecture> gemma_architectures() { return kGemma; }

}  // namespace lockstep::gguf
