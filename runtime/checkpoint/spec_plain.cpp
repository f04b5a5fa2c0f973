#include <fmt/format.h>

#include "runtime/checkpoint/spec_families.h"
#include "runtime/checkpoint/spec_keys.h"

namespace lockstep::checkpoint {
namespace {

constexpr Key<int64_t> kNoKey{""};
constexpr int64_t kWidening = 4;           // default MLP width / hidden size
constexpr int64_t kBloomPositions = 2048;  // of BLOOM's training; ALiBi itself has no limit

/// The keys of GPT-2 and GPT-J. If a file has both, the common names override theirs.
FamilyKeys gpt_keys(const KeyReader& config) {
  FamilyKeys keys;
  keys.hidden_size.name = either(config, "hidden_size", "n_embd");
  keys.layers.name = either(config, "num_hidden_layers", "n_layer");
  keys.query_heads.name = either(config, "num_attention_heads", "n_head");
  keys.max_positions.name = either(config, "max_position_embeddings", "n_positions");
  keys.key_value_heads = keys.head_dim = kNoKey;
  keys.norm_epsilon = {"layer_norm_epsilon", 1e-5};
  keys.activation = {"activation_function", "gelu_new"};
  return keys;
}

void set_biases(ModelSpec& spec, bool attention, bool mlp) {
  spec.attention_bias = spec.attention_output_bias = attention;
  spec.mlp_bias = mlp;
}

/// `n_inner`: absent or null means four times the hidden size.
Result<Key<int64_t>> inner_key(const KeyReader& config, const FamilyKeys& keys) {
  LOCKSTEP_TRY(const int64_t hidden_size, config.integer(keys.hidden_size.name, kWidth));
  return Key<int64_t>{"n_inner", kWidening * hidden_size};
}

Result<ModelSpec> read_gpt2(const KeyReader& config) {
  FamilyKeys keys = gpt_keys(config);
  LOCKSTEP_TRY(keys.intermediate_size, inner_key(config, keys));
  keys.max_positions.otherwise = 1024;
  keys.tied_embeddings = true;
  LOCKSTEP_TRY_VOID(require_switch(config, "add_cross_attention", false));
  LOCKSTEP_TRY(ModelSpec spec, read_family(config, "gpt2", keys));
  spec.mlp = Mlp::kPlain;
  spec.positions = Positions::kLearned;
  set_biases(spec, true, true);
  LOCKSTEP_TRY(const bool scales, config.boolean_or("scale_attn_weights", true));
  if (!scales) spec.attention_scale = 1.0;
  LOCKSTEP_TRY(spec.scale_by_layer, config.boolean_or("scale_attn_by_inverse_layer_idx", false));
  return spec;
}

Result<ModelSpec> read_gptj(const KeyReader& config) {
  FamilyKeys keys = gpt_keys(config);
  LOCKSTEP_TRY(keys.intermediate_size, inner_key(config, keys));
  keys.max_positions.otherwise = 2048;
  LOCKSTEP_TRY(ModelSpec spec, read_family(config, "gptj", keys));
  spec.mlp = Mlp::kPlain;
  spec.parallel_residual = true;
  spec.head_bias = true;
  set_biases(spec, false, true);
  spec.rope.pairs = RopeSpec::Pairs::kNeighbours;
  if (config.is_null("rotary_dim")) return unsupported(config, "rotary_dim", "null", "a number");
  LOCKSTEP_TRY(spec.rope.rotated, config.integer_or("rotary_dim", 64, kWidth));
  if (spec.rope.rotated > spec.head_dim || spec.rope.rotated % 2 != 0) {
    return Error{ErrorKind::kInvalidArgument,
                 fmt::format("[runtime/checkpoint] cannot use {}: rotary_dim: found {}, expected an even number up to "
                             "{}, the width of a head; correct the file",
                             config.origin(), spec.rope.rotated, spec.head_dim)};
  }
  return spec;
}

Result<ModelSpec> read_opt(const KeyReader& config) {
  FamilyKeys keys;
  keys.key_value_heads = keys.head_dim = kNoKey;
  keys.intermediate_size = {"ffn_dim"};
  keys.max_positions.otherwise = 2048;
  keys.norm_epsilon = {"", 1e-5};
  keys.activation = {"activation_function", "relu"};
  keys.tied_embeddings = true;
  LOCKSTEP_TRY_VOID(require_switch(config, "layer_norm_elementwise_affine", true));
  LOCKSTEP_TRY(ModelSpec spec, read_family(config, "opt", keys));
  spec.mlp = Mlp::kPlain;
  spec.positions = Positions::kLearned;
  spec.position_offset = 2;  // rows 0 and 1 of the table are for padding
  LOCKSTEP_TRY(spec.embedding_size, config.integer_or("word_embed_proj_dim", spec.hidden_size, kWidth));
  LOCKSTEP_TRY(spec.norm_before, config.boolean_or("do_layer_norm_before", true));
  if (spec.norm_before) LOCKSTEP_TRY_VOID(require_switch(config, "_remove_final_layer_norm", false));
  LOCKSTEP_TRY(const bool has_biases, config.boolean_or("enable_bias", true));
  set_biases(spec, has_biases, has_biases);
  return spec;
}

Result<ModelSpec> read_gpt_neox(const KeyReader& config) {
  FamilyKeys keys;
  keys.key_value_heads = keys.head_dim = kNoKey;
  keys.max_positions.otherwise = 2048;
  keys.norm_epsilon = {"layer_norm_eps", 1e-5};
  keys.activation.otherwise = "gelu";
  LOCKSTEP_TRY(ModelSpec spec, read_family(config, "gpt_neox", keys));
  spec.mlp = Mlp::kPlain;
  LOCKSTEP_TRY(spec.parallel_residual, config.boolean_or("use_parallel_residual", true));
  LOCKSTEP_TRY(const bool attention_bias, config.boolean_or("attention_bias", true));
  set_biases(spec, attention_bias, true);
  LOCKSTEP_TRY(spec.rope,
               read_rope(config, spec,
                         {.theta = {"rotary_emb_base", 10000.0}, .rotated = {"rotary_pct", 0.25}, .partial = true}));
  return spec;
}

Result<ModelSpec> read_bloom(const KeyReader& config) {
  FamilyKeys keys;
  keys.hidden_size.name = either(config, "n_embed", "hidden_size");
  keys.layers.name = either(config, "num_hidden_layers", "n_layer");
  keys.query_heads.name = either(config, "num_attention_heads", "n_head");
  keys.key_value_heads = keys.head_dim = kNoKey;
  LOCKSTEP_TRY(const int64_t hidden_size, config.integer(keys.hidden_size.name, kWidth));
  keys.intermediate_size = {"", kWidening * hidden_size};
  keys.max_positions = {"seq_length", kBloomPositions};
  keys.norm_epsilon = {"layer_norm_epsilon", 1e-5};
  keys.activation = {"", "gelu_new"};
  keys.tied_embeddings = true;
  LOCKSTEP_TRY(const int64_t slices, config.integer_or("pretraining_tp", 1, kWidth));
  if (slices > 1) LOCKSTEP_TRY_VOID(require_switch(config, "slow_but_exact", false));  // it omits biases
  LOCKSTEP_TRY(ModelSpec spec, read_family(config, "bloom", keys));
  spec.mlp = Mlp::kPlain;
  spec.positions = Positions::kAlibi;
  set_biases(spec, true, true);
  LOCKSTEP_TRY(spec.residual_after_norm, config.boolean_or("apply_residual_connection_post_layernorm", false));
  return spec;
}

// ---- Phi: attention and MLP side by side below one norm, a part of each head turns ----

Result<ModelSpec> read_phi(const KeyReader& config) {
  FamilyKeys keys;
  keys.max_positions.otherwise = 2048;
  keys.norm_epsilon = {"layer_norm_eps", 1e-5};
  keys.activation.otherwise = "gelu_new";
  LOCKSTEP_TRY_VOID(require_switch(config, "qk_layernorm", false));
  LOCKSTEP_TRY(ModelSpec spec, read_family(config, "phi", keys));
  spec.mlp = Mlp::kPlain;
  spec.parallel_residual = true;
  spec.head_bias = true;
  set_biases(spec, true, true);
  LOCKSTEP_TRY(spec.rope, read_rope(config, spec, {.rotated = {"partial_rotary_factor", 0.5}, .partial = true}));
  return spec;
}

constexpr std::string_view kPhiIdle[] = {"embd_pdrop", "resid_pdrop"};  // dropout of the training

// ---- Falcon: two layouts of attention ----

/// The key/value heads and norms of either layout.
Result<void> read_falcon_layout(const KeyReader& config, FamilyKeys& keys, bool& parallel, bool& shared_norm) {
  LOCKSTEP_TRY(const bool is_new, config.boolean_or("new_decoder_architecture", false));
  LOCKSTEP_TRY(const bool multi_query, config.boolean_or("multi_query", true));
  LOCKSTEP_TRY(const int64_t norms, config.integer_or("num_ln_in_parallel_attn", is_new ? 2 : 1, {1, 2}));
  if (is_new) LOCKSTEP_TRY_VOID(require_switch(config, "parallel_attn", true));
  LOCKSTEP_TRY(parallel, config.boolean_or("parallel_attn", true));
  if (!is_new && parallel && norms != 1) return unsupported(config, "num_ln_in_parallel_attn", "2", "1");
  shared_norm = parallel && norms == 1;
  if (is_new) {
    keys.key_value_heads.name = "num_kv_heads";
  } else {
    keys.key_value_heads = multi_query ? Key<int64_t>{"", 1} : kNoKey;
  }
  return ok();
}

Result<ModelSpec> read_falcon(const KeyReader& config) {
  FamilyKeys keys;
  keys.hidden_size.name = either(config, "n_embed", "hidden_size");
  LOCKSTEP_TRY(const int64_t hidden_size, config.integer(keys.hidden_size.name, kWidth));
  keys.intermediate_size = {"ffn_hidden_size", kWidening * hidden_size};
  keys.head_dim = kNoKey;
  keys.max_positions.otherwise = 2048;
  keys.norm_epsilon = {"layer_norm_epsilon", 1e-5};
  keys.activation = {"activation", "gelu"};
  keys.tied_embeddings = true;
  LOCKSTEP_TRY_VOID(require_switch(config, "alibi", false));
  bool parallel = true, shared_norm = false;
  LOCKSTEP_TRY_VOID(read_falcon_layout(config, keys, parallel, shared_norm));
  LOCKSTEP_TRY(ModelSpec spec, read_family(config, "falcon", keys));
  spec.mlp = Mlp::kPlain;
  spec.parallel_residual = parallel;
  spec.shared_norm = shared_norm;
  LOCKSTEP_TRY(const bool has_biases, config.boolean_or("bias", false));
  set_biases(spec, has_biases, has_biases);
  LOCKSTEP_TRY(spec.rope, read_rope(config, spec, {}));
  return spec;
}

constexpr std::string_view kFalconIdle[] = {
    "hidden_size",   // replaced by n_embed where both are given
    "num_kv_heads",  // of the new layout only
    // transformers does not read them
    "apply_residual_connection_post_layernorm",
    "ff_factor",
};

// ---- Nemotron: norms by 1 + w, the square of ReLU ----

Result<ModelSpec> read_nemotron(const KeyReader& config) {
  FamilyKeys keys;
  keys.max_positions.otherwise = 4096;
  keys.norm_epsilon = {"norm_eps", 1e-5};
  keys.activation.otherwise = "relu2";
  LOCKSTEP_TRY(ModelSpec spec, read_family(config, "nemotron", keys));
  spec.mlp = Mlp::kPlain;
  LOCKSTEP_TRY_VOID(read_attention_bias(config, false, spec));
  LOCKSTEP_TRY(spec.mlp_bias, config.boolean_or("mlp_bias", false));
  LOCKSTEP_TRY(spec.rope, read_rope(config, spec, {.rotated = {"partial_rotary_factor", 0.5}, .partial = true}));
  return spec;
}

// ---- Cohere: attention and MLP side by side, LayerNorm without a bias, scaled logits ----

/// What both have in common. Neighbouring elements of a head turn.
Result<ModelSpec> read_any_cohere(const KeyReader& config, std::string_view model_type, double theta) {
  FamilyKeys keys;
  keys.max_positions.otherwise = 8192;
  keys.norm_epsilon = {"layer_norm_eps", 1e-5};
  keys.tied_embeddings = true;
  LOCKSTEP_TRY(ModelSpec spec, read_family(config, model_type, keys));
  LOCKSTEP_TRY_VOID(read_attention_bias(config, false, spec));
  spec.parallel_residual = true;
  LOCKSTEP_TRY(spec.rope, read_rope(config, spec, {.theta = {"rope_theta", theta}}));
  spec.rope.pairs = RopeSpec::Pairs::kNeighbours;
  LOCKSTEP_TRY(spec.logit_scale, config.number_or("logit_scale", 0.0625, kPositive));
  return spec;
}

Result<ModelSpec> read_cohere(const KeyReader& config) {
  LOCKSTEP_TRY_VOID(require_switch(config, "use_qk_norm", false));
  return read_any_cohere(config, "cohere", 500000.0);
}

constexpr std::string_view kCohereIdle[] = {"model_max_length"};  // the tokenizer's

/// Layers without a window do not turn.
Result<ModelSpec> read_cohere2(const KeyReader& config) {
  LOCKSTEP_TRY(ModelSpec spec, read_any_cohere(config, "cohere2", 10000.0));
  LOCKSTEP_TRY(const auto window, read_window(config, 4096));
  LOCKSTEP_TRY(const int64_t pattern, config.integer_or("sliding_window_pattern", 4, kWidth));
  LOCKSTEP_TRY_VOID(read_layer_windows(
      config, window, [&](int64_t layer) { return (layer + 1) % pattern != 0; }, spec));
  for (int64_t layer = 0; layer < spec.layers; ++layer) {
    if (spec.window(layer) == 0) spec.layers_without_rope.push_back(layer);
  }
  return spec;
}

constexpr std::string_view kCohere2Idle[] = {
    "sliding_window_pattern",  // read where layer_types is absent
    "_sliding_window_pattern",
    // of the code before transformers', which does not read them
    "layer_switch",
    "order_of_interleaved_layers",
    "position_embedding_type",
    "rotary_pct",
    "use_embedding_sharing",
    "use_gated_activation",
    "use_parallel_block",
    "use_parallel_embedding",
    "use_qk_norm",
};

constexpr std::string_view kBloomIdle[] = {
    // other names of hidden_size, n_layer and n_head
    "hidden_size", "n_embed", "num_hidden_layers", "num_attention_heads",
    // of the training's code, which transformers does not read
    "attention_softmax_in_fp32", "bias_dropout_fusion", "masked_softmax_fusion", "n_inner", "offset_alibi",
    "seq_length", "skip_bias_add", "skip_bias_add_qkv",
    "slow_but_exact",  // refused where it would have an effect
};

constexpr std::string_view kGptIdle[] = {
    // other names of the common sizes
    "n_embd",
    "n_head",
    "n_layer",
    "n_positions",
    "n_ctx",
    // training
    "attn_pdrop",
    "embd_pdrop",
    "resid_pdrop",
    // of heads that classify
    "summary_activation",
    "summary_first_dropout",
    "summary_proj_to_labels",
    "summary_type",
    "summary_use_proj",
    // sums of attention are float32 in any case
    "reorder_and_upcast_attn",
    "output_past",
    // of GPT-J, whose scores are always scaled and whose code was another before transformers'
    "scale_attn_weights",
    "rotary",
};

constexpr std::string_view kGptNeoxIdle[] = {
    "classifier_dropout",
    "attention_probs_dropout_prob",
    "hidden_dropout_prob",
    "is_decoder",
    "partial_rotary_factor",  // rotary_pct says which part turns, rotary_emb_base how fast
    "rope_theta",
};

constexpr std::string_view kOptIdle[] = {
    "_remove_final_layer_norm",  // without a norm before each block there is none
    "dropout",
    "activation_dropout",
    "layerdrop",
    "init_std",
};

constexpr ModelType kPlainTypes[] = {
    {"bloom", "BloomForCausalLM", read_bloom, kBloomIdle},
    {"cohere", "CohereForCausalLM", read_cohere, kCohereIdle},
    {"cohere2", "Cohere2ForCausalLM", read_cohere2, kCohere2Idle},
    {"falcon", "FalconForCausalLM", read_falcon, kFalconIdle},
    {"gpt2", "GPT2LMHeadModel", read_gpt2, kGptIdle},
    {"gpt_neox", "GPTNeoXForCausalLM", read_gpt_neox, kGptNeoxIdle},
    {"gptj", "GPTJForCausalLM", read_gptj, kGptIdle},
    {"nemotron", "NemotronForCausalLM", read_nemotron},
    {"opt", "OPTForCausalLM", read_opt, kOptIdle},
    {"phi", "PhiForCausalLM", read_phi, kPhiIdle},
};

}  // namespace

std::span<const ModelType> plain_types() { return kPlainTypes; }

}  // namespace lockstep::checkpoint
