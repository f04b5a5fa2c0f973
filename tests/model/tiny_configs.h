// config.json of tiny models for tests.
#pragma once

namespace lockstep::model {

/// 2 layers, hidden 8, 2 query heads over 1 key/value head of 4, MLP 16, vocabulary 32, 64 positions.
inline constexpr const char* kTinyLlama = R"({
  "model_type": "llama", "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2,
  "num_key_value_heads": 1, "head_dim": 4, "intermediate_size": 16, "hidden_act": "silu", "vocab_size": 32,
  "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": false,
  "torch_dtype": "float32", "bos_token_id": 1, "eos_token_id": 2})";

/// 64 learned positions.
inline constexpr const char* kTinyGpt2 = R"({
  "model_type": "gpt2", "n_embd": 8, "n_layer": 2, "n_head": 2, "n_positions": 64, "vocab_size": 32,
  "torch_dtype": "float32", "bos_token_id": 1, "eos_token_id": 2})";

/// ALiBi.
inline constexpr const char* kTinyBloom = R"({
  "model_type": "bloom", "hidden_size": 8, "n_layer": 2, "n_head": 2, "seq_length": 64, "vocab_size": 32,
  "torch_dtype": "float32", "bos_token_id": 1, "eos_token_id": 2})";

/// 5 layers with a window of 8 and their own rope, and one without.
inline constexpr const char* kTinyGemma3 = R"({
  "model_type": "gemma3_text", "hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 6, "vocab_size": 32,
  "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 4, "max_position_embeddings": 64,
  "hidden_activation": "gelu_pytorch_tanh", "rms_norm_eps": 1e-6, "query_pre_attn_scalar": 4, "sliding_window": 8,
  "rope_theta": 1000000.0, "rope_local_base_freq": 10000.0, "sliding_window_pattern": 6,
  "torch_dtype": "float32", "bos_token_id": 2, "eos_token_id": 1})";

/// Each token chooses 2 of 4 experts of 16 columns.
inline constexpr const char* kTinyMixtral = R"({
  "model_type": "mixtral", "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2,
  "num_key_value_heads": 1, "intermediate_size": 16, "hidden_act": "silu", "vocab_size": 32,
  "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": false,
  "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": null,
  "torch_dtype": "float32", "bos_token_id": 1, "eos_token_id": 2})";

}  // namespace lockstep::model
