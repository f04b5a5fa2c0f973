// The architecture of a decoder-only model, as a value read from config.json. All planning before weights are read
// (partition, graphs, memory) depends only on it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/checkpoint/weight_formats.h"
#include "runtime/core/cache_rows.h"
#include "runtime/core/dtype.h"
#include "runtime/core/field_list.h"
#include "runtime/core/result.h"

namespace lockstep::checkpoint {

/// Rotary position embedding.
struct RopeSpec {
  enum class Kind { kDefault, kLinear, kLlama3, kYarn, kLongrope, kProportional };
  /// Which elements of a head form a pair: (i, i + rotated / 2), or (2i, 2i + 1) as in GPT-J.
  enum class Pairs { kHalves, kNeighbours };

  Kind kind = Kind::kDefault;
  Pairs pairs = Pairs::kHalves;
  int64_t rotated = 0;  // rotated elements of a head, even; the others are unchanged
  int64_t turning = 0;  // proportional: the first of the rotated elements; the others have the frequency 0
  double theta = 10000.0;
  double factor = 1.0;
  double low_frequency_factor = 1.0;              // llama3
  double high_frequency_factor = 4.0;             // llama3
  std::optional<int64_t> original_max_positions;  // llama3, yarn, longrope; the model's maximum if absent
  double beta_fast = 32.0;                        // yarn
  double beta_slow = 1.0;                         // yarn
  bool truncate = true;                           // yarn
  std::optional<double> attention_factor;         // yarn, longrope; if absent, computed from the factors
  std::optional<double> mscale, mscale_all_dim;   // yarn
  std::vector<double> short_factors;              // longrope, [rotated / 2]: sequences up to the original maximum
  std::vector<double> long_factors;               // longrope, [rotated / 2]: longer sequences

  friend bool operator==(const RopeSpec&, const RopeSpec&) = default;
};
LOCKSTEP_FIELDS(RopeSpec, kind, pairs, rotated, turning, theta, factor, low_frequency_factor, high_frequency_factor,
                original_max_positions, beta_fast, beta_slow, truncate, attention_factor, mscale, mscale_all_dim,
                short_factors, long_factors);

/// The gated delta rule of linear attention layers (Qwen3-Next): heads with a state of a fixed size.
struct DeltaRuleSpec {
  int64_t key_heads = 0;
  int64_t value_heads = 0;  // a multiple of the key heads
  int64_t key_dim = 0;      // of a head
  int64_t value_dim = 0;
  int64_t taps = 0;  // of the convolution before it

  friend bool operator==(const DeltaRuleSpec&, const DeltaRuleSpec&) = default;
};
LOCKSTEP_FIELDS(DeltaRuleSpec, key_heads, value_heads, key_dim, value_dim, taps);

/// Latent attention (DeepSeek-V2, arXiv:2405.04434): keys and values of all heads are made of one latent row a token,
/// beside which stands one rotated key for all heads. A head's keys are its rows of kv_b times the latent; that product
/// is moved to the query, so the latent itself is the key, and attention's result, again a latent, is multiplied by the
/// head's rows for values.
struct LatentAttention {
  int64_t query_rank = 0;   // of the queries' own latent; 0: queries are projected directly
  int64_t rank = 0;         // columns of the latent: those of a value in the cache
  int64_t plain_dim = 0;    // of a head's query, the columns compared with the latent
  int64_t rotated_dim = 0;  // and those compared with the rotated key
  int64_t value_dim = 0;    // columns of a head's result

  int64_t query_dim() const { return plain_dim + rotated_dim; }
  /// Weight elements of a head in the projections of queries, keys, values and the output.
  int64_t head_elements(int64_t hidden) const {
    return query_dim() * (query_rank > 0 ? query_rank : hidden) + (plain_dim + value_dim) * rank + value_dim * hidden;
  }

  friend bool operator==(const LatentAttention&, const LatentAttention&) = default;
};
LOCKSTEP_FIELDS(LatentAttention, query_rank, rank, plain_dim, rotated_dim, value_dim);

/// How a mixture chooses a token's experts and weighs them: softmax or sigmoid gives every expert a score.
struct RouterSpec {
  enum class Scores { kSoftmax, kSigmoid };
  /// The score of a group of experts: its best expert's, or the sum of its best two.
  enum class GroupScore { kBest, kBestTwo };

  Scores scores = Scores::kSoftmax;
  bool has_bias = false;    // added to the scores for the choice only
  int64_t groups = 1;       // of experts with consecutive numbers, equally many
  int64_t kept_groups = 1;  // those with the best scores, from which experts are chosen
  GroupScore group_score = GroupScore::kBest;
  bool sum_to_one = true;  // a weight is the expert's share of the scores of the chosen; false: its score
  double least_sum = 0.0;  // sum_to_one: of those scores
  double scale = 1.0;      // on the weights
  bool on_inputs = false;  // weights multiply what the experts read, not their sums (Llama 4)

  friend bool operator==(const RouterSpec&, const RouterSpec&) = default;
};
LOCKSTEP_FIELDS(RouterSpec, scores, has_bias, groups, kept_groups, group_score, sum_to_one, least_sum, scale,
                on_inputs);

/// Factors on the queries of a layer that grow with the position (Llama 4): 1 + beta · ln(1 + ⌊(p + offset) / every⌋).
struct QueryScaling {
  double beta = 0.0;  // 0: none
  int64_t every = 1;
  int64_t offset = 0;

  friend bool operator==(const QueryScaling&, const QueryScaling&) = default;
};
LOCKSTEP_FIELDS(QueryScaling, beta, every, offset);

/// The kind of position embedding.
enum class Positions { kRotary, kLearned, kAlibi };

/// The heads of a layer's attention, beside their number of queries.
struct HeadShape {
  int64_t head_dim = 0;  // may differ from hidden_size / query_heads
  int64_t key_value_heads = 0;
  bool keys_are_values = false;  // one projection makes both, before norms and rotation

  /// The rows of k's projection, and of v's if it has one.
  int64_t key_value_rows() const { return (keys_are_values ? 1 : 2) * key_value_heads * head_dim; }

  friend bool operator==(const HeadShape&, const HeadShape&) = default;
};
LOCKSTEP_FIELDS(HeadShape, head_dim, key_value_heads, keys_are_values);

/// The kind of MLP: down(act(up)), or down(act(gate) · up), or a mixture of experts of the latter form.
enum class Mlp { kPlain, kGated, kExperts };

/// A model's architecture, with all defaults filled in. Unused fields of a family keep their neutral values.
struct ModelSpec {
  std::string model_type;  // "llama"; text part of "gemma3": "gemma3_text"; "mistral" with layer types: "ministral"
  int64_t hidden_size = 0;
  int64_t embedding_size = 0;  // of a token; hidden_size except for OPT, which may project it
  int64_t layers = 0;
  int64_t vocabulary = 0;
  int64_t max_positions = 0;  // BLOOM: that of training (`seq_length`); its positions are unlimited
  double norm_epsilon = 1e-6;
  double embedding_scale = 1.0;  // Gemma: √hidden_size, rounded to the model's type when applied
  double residual_scale = 1.0;   // on what attention and MLP add to the residual
  double logit_scale = 1.0;
  double logit_soft_cap = 0.0;  // c · tanh(logit / c); 0: none
  bool tied_embeddings = false;
  bool head_bias = false;  // on the logits

  // attention
  int64_t query_heads = 0;
  int64_t key_value_heads = 0;
  int64_t head_dim = 0;                   // may differ from hidden_size / query_heads
  std::optional<HeadShape> global_heads;  // of the layers without a window, if different (Gemma 4)
  std::optional<LatentAttention> latent;  // one key head of the latent and the rotated key, which is also the value
  double attention_scale = 0.0;           // on q · k
  double attention_soft_cap = 0.0;        // as logit_soft_cap
  bool attention_bias = false;            // on q, k and v
  bool attention_output_bias = false;
  bool query_key_norm = false;       // of each head, before its rotation
  bool norm_after_rope = false;      // query_key_norm: after it
  bool norm_across_heads = false;    // query_key_norm: of all heads as one row (OLMo 2)
  bool plain_head_norm = false;      // query_key_norm: without weights, in the layers with rope (Llama 4)
  bool value_norm = false;           // of each head of v, without weights
  bool attention_gate = false;       // the output is multiplied by the sigmoid of a projection
  bool attention_sinks = false;      // a learned logit per head in the softmax's denominator
  bool scale_by_layer = false;       // attention_scale / (layer + 1) (GPT-2)
  std::vector<int64_t> windows;      // [layers]: keys that a token sees, including itself; 0: all. Empty: no windows
  int64_t layers_sharing_cache = 0;  // the last ones; see `cache_layer`
  int64_t pinned_sinks = 0;          // first positions that remain visible in layers with a window (StreamingLLM)

  // recurrence
  std::vector<int64_t> delta_layers;  // increasing: layers with the delta rule instead of attention
  DeltaRuleSpec delta_rule;           // of those

  // positions
  Positions positions = Positions::kRotary;
  int64_t position_offset = 0;               // learned: row of position 0 in the table (OPT: 2)
  RopeSpec rope;                             // kRotary only
  std::optional<RopeSpec> local_rope;        // of the layers with a window, if different (Gemma 3)
  std::vector<int64_t> layers_without_rope;  // increasing

  // attention of Llama 4
  QueryScaling query_scaling;    // of all layers; in a model with layers without rope, of those
  bool chunked_windows = false;  // of the windows, only keys since the last multiple of their length

  // MLP
  Mlp mlp = Mlp::kGated;
  int64_t intermediate_size = 0;    // of each expert, if there are experts
  int64_t sharing_mlp_width = 1;    // of the layers that share a cache, as a multiple of intermediate_size
  std::string activation = "silu";  // silu, gelu, gelu_tanh, relu, squared_relu; gpt-oss: clamped_swiglu
  double swiglu_limit = 0.0;        // clamped_swiglu
  double swiglu_alpha = 0.0;        // clamped_swiglu: gate · sigmoid(alpha · gate)
  bool mlp_bias = false;
  std::vector<double> gate_sparsity;  // [layers]: part of the gates that the layer drops, as if they were normally
                                      // distributed; empty: none
  int64_t experts = 0;
  int64_t experts_per_token = 0;
  RouterSpec router;
  int64_t shared_expert_size = 0;     // columns of a gated MLP that every token takes beside its experts; 0: none
  bool shared_expert_gate = false;    // its sum is multiplied with the sigmoid of a product with x
  bool experts_beside_mlp = false;    // the shared expert is the layer's MLP; experts and router norm x, and experts
                                      // have factors on their weights (Gemma 4)
  std::vector<int64_t> dense_layers;  // increasing: those with a gated MLP instead of experts
  int64_t dense_size = 0;             // columns of their MLP

  // layer structure
  bool norm_before = true;           // false: norm after the residual sum (OPT 350m)
  bool parallel_residual = false;    // attention and MLP read the same x (GPT-J, GPT-NeoX)
  bool shared_norm = false;          // parallel_residual: one norm for both, in a layout of two (Falcon)
  bool residual_after_norm = false;  // the residual is the norm's output (BLOOM's option)
  bool layer_scalar = false;         // a learned factor on a layer's output
  int64_t layer_input_size = 0;  // columns of each token's second embedding that each layer reads (Gemma 3n); 0: none
  int64_t layer_input_vocabulary = 0;
  bool layer_input_of_others = false;  // ids beyond that vocabulary read the row of id 0
  int64_t streams = 1;                 // parallel residuals, of which layers compute one (AltUp, Gemma 3n)
  int64_t active_stream = 0;           // the one that layers compute
  bool scale_active_stream = false;    // ahead of the layer's input
  int64_t laurel_rank = 0;             // a product of this rank beside attention (LAUREL, Gemma 3n); 0: none

  DType dtype = DType::kFloat32;  // of the checkpoint, according to the config
  WeightFormats formats;          // of the matrices in 4 and 8 bits: the checkpoint's, or those that serving makes
  CacheType cache_type = CacheType::kModel;  // of keys and values when served

  /// The attention window of `layer`; 0: none.
  int64_t window(int64_t layer) const { return windows.empty() ? 0 : windows[static_cast<size_t>(layer)]; }
  /// Whether `layer` has the delta rule instead of attention.
  bool has_delta_rule(int64_t layer) const { return std::ranges::binary_search(delta_layers, layer); }
  bool has_experts(int64_t layer) const {
    return mlp == Mlp::kExperts && !std::ranges::binary_search(dense_layers, layer);
  }
  int64_t expert_layers() const {
    return mlp == Mlp::kExperts ? layers - static_cast<int64_t>(dense_layers.size()) : 0;
  }
  /// The heads of the layers without global heads.
  HeadShape usual_heads() const { return {head_dim, key_value_heads, latent.has_value()}; }
  bool has_global_heads(int64_t layer) const { return window(layer) == 0 && global_heads; }
  /// The heads of `layer`.
  HeadShape heads_of(int64_t layer) const { return has_global_heads(layer) ? *global_heads : usual_heads(); }
  /// The heads of all layers: one shape, or two.
  std::vector<HeadShape> head_shapes() const;
  /// Weight elements of a query head's projections in `layer`: q, o and a gate's.
  int64_t query_head_elements(int64_t layer) const {
    if (latent) return latent->head_elements(hidden_size);
    return (attention_gate ? 3 : 2) * heads_of(layer).head_dim * hidden_size;
  }
  /// Whether `layer` attends to another layer's keys and values.
  bool shares_cache(int64_t layer) const { return layer >= layers - layers_sharing_cache; }
  /// The layer whose keys and values `layer` attends to: itself, or the last one of its kind, with a window or without,
  /// that shares none.
  int64_t cache_layer(int64_t layer) const;
  /// The columns of the MLP of `layer`.
  int64_t mlp_size(int64_t layer) const { return intermediate_size * (shares_cache(layer) ? sharing_mlp_width : 1); }
  /// The rotary embedding of `layer`.
  const RopeSpec& rope_of(int64_t layer) const { return window(layer) > 0 && local_rope ? *local_rope : rope; }
  /// Whether each head of the queries and keys of `layer` is normed.
  bool norms_heads(int64_t layer) const {
    return query_key_norm && !norm_across_heads && (!plain_head_norm || has_rope(layer));
  }
  /// Whether the queries of `layer` grow with their position.
  bool scales_queries(int64_t layer) const {
    return query_scaling.beta != 0.0 && (layers_without_rope.empty() || !has_rope(layer));
  }
  /// Whether the queries and keys of `layer` are rotated.
  bool has_rope(int64_t layer) const {
    return positions == Positions::kRotary && !std::ranges::binary_search(layers_without_rope, layer);
  }

  friend bool operator==(const ModelSpec&, const ModelSpec&) = default;
};
LOCKSTEP_FIELDS(ModelSpec, model_type, hidden_size, embedding_size, layers, vocabulary, max_positions, norm_epsilon,
                embedding_scale, residual_scale, logit_scale, logit_soft_cap, tied_embeddings, head_bias, query_heads,
                key_value_heads, head_dim, global_heads, latent, attention_scale, attention_soft_cap, attention_bias,
                attention_output_bias, query_key_norm, norm_after_rope, norm_across_heads, plain_head_norm, value_norm,
                attention_gate, attention_sinks, scale_by_layer, windows, layers_sharing_cache, chunked_windows,
                pinned_sinks, delta_layers, delta_rule, positions, position_offset, rope, local_rope,
                layers_without_rope, query_scaling, mlp, intermediate_size, sharing_mlp_width, activation, swiglu_limit,
                swiglu_alpha, mlp_bias, gate_sparsity, experts, experts_per_token, router, shared_expert_size,
                shared_expert_gate, experts_beside_mlp, dense_layers, dense_size, norm_before, parallel_residual,
                shared_norm, residual_after_norm, layer_scalar, layer_input_size, layer_input_vocabulary,
                layer_input_of_others, streams, active_stream, scale_active_stream, laurel_rank, dtype, formats,
                cache_type);

/// The model types accepted by `read_spec`, for messages.
std::vector<std::string> supported_model_types();

/// Reads a config.json; without a quantization_config it also reads quantize_config.json, quant_config.json or
/// hf_quant_config.json beside it. Formats are those of the weights beside it (`stored_weight_formats`), if there are
/// any. Fails with `kNotFound` (no such file), `kInvalidArgument` (not JSON; a missing key, or one of the wrong type or
/// out of range) or `kUnsupported` (model type, rope kind, activation, a format of quantised weights, a switch of the
/// family; the message lists the supported values).
Result<ModelSpec> read_spec(const std::filesystem::path& config_json);

/// Parses the text of a config.json; `origin` names it in messages.
Result<ModelSpec> parse_spec(std::string_view config, std::string_view origin);

/// The inverse frequencies f32 [rotated / 2] and the factor on cos and sin, as transformers computes them
/// (modeling_rope_utils.py) for `rope` in a model of `spec`.
struct RopeTable {
  std::vector<float> frequencies;
  std::vector<float> long_frequencies;  // longrope: for sequences longer than the original maximum; else empty
  double scale = 1.0;
};
Result<RopeTable> rope_table(const ModelSpec& spec, const RopeSpec& rope);

}  // namespace lockstep::checkpoint
