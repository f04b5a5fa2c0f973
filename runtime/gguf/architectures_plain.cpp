// Architectures with LayerNorm, as model types of transformers.
#include "runtime/gguf/config_writer.h"

namespace lockstep::gguf {
namespace {

using nlohmann::json;

/// Families whose heads follow from the sizes.
void erase_heads(ConfigWriter& writer) {
  writer.erase("head_dim");
  writer.erase("num_key_value_heads");
}

Result<void> finish_gpt2(ConfigWriter& writer) {
  erase_heads(writer);
  writer.erase("rope_theta");
  writer.rename("intermediate_size", "n_inner");
  return ok();
}

Result<void> finish_gptneox(ConfigWriter& writer) {
  erase_heads(writer);
  constexpr KeyPair kKeys[] = {{"use_parallel_residual", "use_parallel_residual"}};
  LOCKSTEP_TRY_VOID(writer.copy(kKeys));
  writer.rename("rope_theta", "rotary_emb_base");
  return write_rotated_part(writer, "rotary_pct");
}

Result<void> finish_bloom(ConfigWriter& writer) {
  erase_heads(writer);
  LOCKSTEP_TRY(const int64_t hidden, writer.integer("embedding_length"));
  LOCKSTEP_TRY(const int64_t inner, writer.integer_or("feed_forward_length", 4 * hidden));
  if (inner != 4 * hidden) return writer.unsupported("found an MLP of another width than 4 times the hidden size");
  writer.erase("intermediate_size");
  writer.rename("max_position_embeddings", "seq_length");
  return ok();
}

/// The first Falcons have one key/value head, later ones groups of them.
Result<void> finish_falcon(ConfigWriter& writer) {
  json& config = writer.config();
  LOCKSTEP_TRY(const int64_t heads, writer.integer("attention.head_count"));
  LOCKSTEP_TRY(const int64_t kv_heads, writer.integer_or("attention.head_count_kv", heads));
  const bool has_two_norms = writer.has_tensor("blk.0.attn_norm_2.weight");
  const bool is_old = !has_two_norms && (kv_heads == 1 || kv_heads == heads);
  config["new_decoder_architecture"] = !is_old;
  if (is_old) {
    config["multi_query"] = kv_heads == 1;
  } else {
    config["num_kv_heads"] = kv_heads;
    config["num_ln_in_parallel_attn"] = has_two_norms ? 2 : 1;
  }
  config["parallel_attn"] = true;
  config["bias"] = writer.has_tensor("blk.0.attn_qkv.bias");
  writer.rename("intermediate_size", "ffn_hidden_size");
  erase_heads(writer);
  return ok();
}

Result<void> finish_phi2(ConfigWriter& writer) { return write_rotated_part(writer, "partial_rotary_factor"); }

Result<void> finish_nemotron(ConfigWriter& writer) {
  if (writer.has_tensor("blk.0.attn_q.bias")) writer.config()["attention_bias"] = true;
  if (writer.has_tensor("blk.0.ffn_up.bias")) writer.config()["mlp_bias"] = true;
  return write_rotated_part(writer, "partial_rotary_factor");
}

Result<void> finish_command_r(ConfigWriter& writer) {
  constexpr KeyPair kKeys[] = {{"logit_scale", "logit_scale"}};
  writer.config()["use_qk_norm"] = writer.has_tensor("blk.0.attn_q_norm.weight");
  if (writer.has_tensor("blk.0.attn_q.bias")) writer.config()["attention_bias"] = true;
  return writer.copy(kKeys);
}

Result<void> finish_cohere2(ConfigWriter& writer) {
  constexpr KeyPair kKeys[] = {{"logit_scale", "logit_scale"}, {"attention.sliding_window", "sliding_window"}};
  writer.erase("head_dim");
  if (writer.has_tensor("blk.0.attn_q.bias")) writer.config()["attention_bias"] = true;
  LOCKSTEP_TRY_VOID(write_layer_types(writer));
  return writer.copy(kKeys);
}

constexpr Architecture kPlain[] = {
    {"bloom", "bloom", "layer_norm_epsilon", finish_bloom},
    {"cohere2", "cohere2", "layer_norm_eps", finish_cohere2},
    {"command-r", "cohere", "layer_norm_eps", finish_command_r},
    {"falcon", "falcon", "layer_norm_epsilon", finish_falcon},
    {"gpt2", "gpt2", "layer_norm_epsilon", finish_gpt2},
    {"gptneox", "gpt_neox", "layer_norm_eps", finish_gptneox},
    {"nemotron", "nemotron", "norm_eps", finish_nemotron},
    {"phi2", "phi", "layer_norm_eps", finish_phi2},
};

}  // namespace

std::span<const Architecture> plain_architectures() { return kPlain; }

}  // namespace lockstep::gguf
