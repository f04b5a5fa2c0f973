// Building blocks of all families: embedding, norms, a layer's attention and MLP with their collectives, and sampling.
// decoder.h combines them; each block slices its weights to the rank's part.
//
//   ids ─ embedding ─ all_reduce ─┬─ norm ─ q,k,v ─ rope ─ kv_append ─ attention ─ o (blocks) ─ all_reduce ─ + ─┐
//                                 └──────────────────────────── residual ─────────────────────────────────────┘ …
//   … ─ select_rows ─ norm ─ agree ─ head ─ all_gather ─ sample ─ tokens
//
// All families use one set of weight names and shapes, Llama's with [outputs, inputs] matrices; runtime/checkpoint maps
// them to each family's files.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "runtime/graph/builder.h"
#include "shards/families/family.h"

namespace lockstep::families {

/// The norm of a family: root mean square times w, or times w or 1 + w and rounded once; or mean and variance, times w,
/// plus a bias or none, or times 1 + w.
enum class Norm { kRms, kRmsRoundedOnce, kRmsPlusOne, kLayer, kLayerNoBias, kLayerPlusOne };

/// Which embeddings of a step the scale is applied to: those of ids, or the given ones of a prompt as well.
enum class Scaled { kOfIds, kAll };

inline Range head_columns(const Range& heads, int64_t width) { return {heads.begin * width, heads.end * width}; }

class StepBuilder {
 public:
  /// Arguments outlive the builder. Declares the step's inputs and the slots' states.
  StepBuilder(const checkpoint::ModelSpec& spec, const partition::Partition& partition, const StepShape& shape,
              Norm norm);

  const checkpoint::ModelSpec& spec() const { return spec_; }
  graph::GraphBuilder& graph() { return graph_; }

  /// dt[T, d]: the scaled embedding of this step's ids, or the given one, projected to the hidden size, and the learned
  /// position's where the model has one.
  graph::ValueId embedding(Scaled scaled);

  /// dt[R, d]; `<name>.weight` (and `.bias`) are whole on every rank.
  graph::ValueId norm(graph::ValueId x, const std::string& name);

  /// dt[T, d]: attention over this layer's cache, or its recurrence, summed over the ranks; `self_attn.…`,
  /// `linear_attn.…`.
  graph::ValueId attention(graph::ValueId x, int64_t layer);

  /// dt[T, d]: the MLP that the spec describes, summed over the ranks; `mlp.…`.
  graph::ValueId mlp(graph::ValueId x, int64_t layer);

  /// dt[T, d]: Gemma 4's MLP of `normed` plus its experts of x, each summed over the ranks and normed.
  graph::ValueId mlp_beside_experts(graph::ValueId x, graph::ValueId normed, int64_t layer);

  /// dt[T, d]: attention(x) + mlp(y), with one all-reduce of both, side by side, where they have the same leaves.
  /// Each is summed and rounded by itself, so the bits are those of two all-reduces.
  graph::ValueId attention_plus_mlp(graph::ValueId x, graph::ValueId y, int64_t layer);

  /// dt[T, d]: what the layer makes of x and of the token's embedding for this layer (`layer_input_size`).
  graph::ValueId layer_input(graph::ValueId x, int64_t layer);

  /// dt[T, d]: x times the layer's learned factor (`layer_scalar`).
  graph::ValueId scale_layer(graph::ValueId x, int64_t layer);

  /// The checkpoint tensor `name` of shape `whole`, complete on every rank.
  graph::ValueId whole_weight(const std::string& name, const Shape& whole);

  /// Ends the step: the rows whose next token is wanted are normed (unless a post-norm model has done so), compared
  /// between ranks, projected on the vocabulary and sampled, or scored.
  Step finish(graph::ValueId x) &&;

 private:
  enum class Bias { kNone, kPresent };

  /// A sum over ranks that has not been reduced yet.
  struct Partial {
    graph::ValueId roots;  // f32[roots, T, d]
    const BlockSplit* blocks;
    std::string bias;  // to add after the sum; empty: none
  };

  /// The heads of a layer: their shape, this rank's, and its rows of gathered k and v.
  struct LayerHeads {
    checkpoint::HeadShape shape;
    partition::RankHeads own;
    Range rows;
  };

  static Bias bias_if(bool present) { return present ? Bias::kPresent : Bias::kNone; }
  graph::ValueId slot_state(const std::string& name, DType dtype);
  /// The elements of an i32[S] for the rows of a decode step.
  graph::ValueId of_rows(graph::ValueId slots);
  /// The slice `ranges` of the checkpoint tensor `name`, whose whole shape is `whole`.
  graph::ValueId weight(const std::string& name, const Shape& whole, std::vector<Range> ranges);
  /// The same for the matrix of a product, in codes where the model has them; `leaf`: columns of a leaf of its sums, if
  /// they have leaves.
  graph::ValueId matrix(const std::string& name, const Shape& whole, std::vector<Range> ranges,
                        std::optional<int64_t> leaf = std::nullopt);
  graph::ValueId head_matrix(const std::string& name, Range rows);
  /// The format of the matrix `tensor` of `columns` in the graph: no group is part of two leaves.
  std::optional<WeightFormat> format_of(const std::string& tensor, int64_t columns,
                                        std::optional<int64_t> leaf = std::nullopt) const;
  /// The format of several slices, of one or more tensors; empty if they have not all the same.
  std::optional<WeightFormat> format_of(const std::vector<graph::WeightSlice>& slices,
                                        std::optional<int64_t> leaf = std::nullopt) const;
  /// The format of a matrix that products multiply in codes.
  std::optional<checkpoint::MatrixFormat> stored_format_of(const std::string& tensor) const;
  /// Whether the columns of a matrix in codes have another order than those of x.
  bool is_ordered(const std::string& tensor) const;
  bool is_ordered(graph::ValueId weight) const;
  checkpoint::ActivationFormat activation_format_of(const std::string& tensor) const;
  /// The type of a matrix and its bias: float32 where the product reads codes times their scale.
  DType product_type(const std::string& tensor) const;
  /// The tensor that decides how a product reads its input.
  std::string tensor_of(graph::ValueId weight) const;
  graph::Activations activations_of(graph::ValueId weight) const;
  /// x as a product with `tensor` reads it: rounded if the checkpoint says so. One value for all products that round
  /// alike.
  graph::ValueId rounded_for(graph::ValueId x, const std::string& tensor);
  /// How it is rounded; a scale that the files hold is not among it.
  std::optional<graph::Rounding> rounding_for(const std::string& tensor) const;
  /// `columns` of x, counted in the order of the matrix.
  graph::ValueId in_order_of(graph::ValueId x, graph::ValueId weight, Range columns);
  /// x as the product with `weight` reads it.
  graph::ValueId input_of(graph::ValueId x, graph::ValueId weight);
  /// The same for this rank's columns of all, gathered if a scale or the order needs them; parameters as in
  /// `row_parallel`.
  graph::ValueId own_columns_of(graph::ValueId x, graph::ValueId weight, Range columns, int64_t whole,
                                const BlockSplit& blocks, int64_t block);
  /// Rows `rows` of the bias of column-parallel products.
  graph::ValueId bias_rows(const std::string& name, int64_t whole, Range rows);
  /// x · wᵀ (+ bias), w with elements or in codes.
  graph::ValueId product(graph::ValueId x, graph::ValueId weight, std::optional<graph::ValueId> bias = std::nullopt,
                         std::optional<DType> result = std::nullopt);
  /// x · (rows `rows` of the weight)ᵀ + (the same rows of the bias): this rank's part of a column-parallel product.
  graph::ValueId column_parallel(graph::ValueId x, const std::string& name, Range rows, const Shape& whole, Bias bias);
  /// This rank's part of x · (columns `columns` of the weight)ᵀ; `block` columns are a leaf of `blocks`.
  Partial row_parallel(graph::ValueId x, const std::string& name, Range columns, const Shape& whole,
                       const BlockSplit& blocks, int64_t block, Bias bias);
  graph::ValueId reduce(const Partial& partial);
  /// The columns of all ranks, rank r's `parts[r]` of them.
  graph::ValueId gathered(graph::ValueId own, std::vector<int64_t> parts);
  bool sums_by_rank() const { return partition_.numerics == partition::Numerics::kFast; }
  graph::ValueId with_bias(graph::ValueId x, const std::string& name);
  /// The family's norm of each head, by a weight or by 1.
  graph::ValueId rms_norm(graph::ValueId x, std::optional<graph::ValueId> weight, int64_t heads);
  /// dt[T, layers · layer_input_size]: every layer's input, made of the token's embeddings: x and those of a second
  /// table.
  graph::ValueId layer_inputs(graph::ValueId x);

  // step_attention.cpp
  struct Rotation;
  Rotation rotation_of(int64_t layer);
  graph::ValueId rotate(graph::ValueId x, const Rotation& rotation, int64_t heads, graph::ValueId position);
  /// The rows' positions, clamped; made once for all layers.
  graph::ValueId position_up_to(int64_t most);
  graph::ValueId scaled_by_position(graph::ValueId queries);
  LayerHeads heads_of(int64_t layer, const partition::RankPart& part) const;
  graph::ValueId head_norm(graph::ValueId x, const std::string& name, const LayerHeads& heads, int64_t count);
  /// Norms `all` heads of all ranks as one row, and keeps the columns `own`.
  graph::ValueId norm_across_heads(graph::ValueId all, const std::string& name, Range own);
  /// Norms this rank's heads `own` across all ranks' heads; `parts`: the columns of each rank.
  graph::ValueId gathered_norm(graph::ValueId own_heads, const std::string& name, Range own,
                               std::vector<int64_t> parts);
  graph::AttentionOptions attention_options(int64_t layer, const std::string& prefix);
  /// This rank's key/value heads of k and of v: own products, or columns of pieces that the ranks gather.
  std::pair<graph::ValueId, graph::ValueId> key_values(graph::ValueId x, const std::string& prefix, int64_t layer);
  graph::ValueId key_value_rows(const std::string& prefix, const std::string& kind, const Shape& whole,
                                const LayerHeads& heads);
  bool is_over_batch() const { return partition_.gqa == partition::GqaMode::kBatch; }
  int64_t cache_slots() const { return is_over_batch() ? shape_.slots / partition_.ranks() : shape_.slots; }
  /// The query heads that attend to this rank's caches: in batch mode, those of all ranks.
  partition::RankHeads attended_heads(const LayerHeads& heads) const;
  /// dt[T, all query heads]: each rank's heads of all rows.
  graph::ValueId queries_of_all(graph::ValueId q, int64_t layer);
  std::vector<int64_t> query_columns(int64_t layer) const;
  std::vector<int64_t> key_columns(int64_t layer) const;
  /// Appends the keys and values, unless the layer shares another's, to its cache and attends with q: this rank's query
  /// heads of all rows.
  graph::ValueId attend(graph::ValueId q, std::optional<std::pair<graph::ValueId, graph::ValueId>> own, int64_t layer,
                        graph::AttentionOptions options);
  Partial attention_partial(graph::ValueId x, int64_t layer);
  /// The same for latent attention: this rank's query heads over one key head, which every rank computes.
  Partial latent_attention_partial(graph::ValueId x, int64_t layer);
  /// dt[T, heads · (rank + rotated_dim)]: the queries compared with rows of the cache.
  graph::ValueId latent_queries(graph::ValueId x, const std::string& prefix, const Rotation& rotation);
  /// dt[T, rank + rotated_dim]: the normed latent and the rotated key.
  graph::ValueId latent_rows(graph::ValueId x, const std::string& prefix, const Rotation& rotation);
  /// What takes attention's place in `layer`: itself or a recurrence.
  Partial mixer_partial(graph::ValueId x, int64_t layer);

  // step_recurrence.cpp
  Partial delta_rule_partial(graph::ValueId x, int64_t layer);
  /// Rows of several tensors, one range after the other, as one weight [rows, columns].
  graph::ValueId stacked_weight(const std::string& name, std::vector<std::pair<std::string, Range>> parts,
                                int64_t columns);
  /// The same for the matrix of a product, in codes where all the tensors have the same.
  graph::ValueId stacked_matrix(const std::string& name, std::vector<std::pair<std::string, Range>> parts,
                                int64_t columns);
  graph::ValueId recurrent_state(int64_t layer, const std::string& name, DType dtype, std::vector<int64_t> dims);
  int64_t window_of(int64_t layer) const;

  /// Both sums, each finished separately; by one all-reduce where they have the same leaves.
  std::pair<graph::ValueId, graph::ValueId> reduce(const Partial& first, const Partial& second);

  // step_mlp.cpp
  /// The columns of an MLP and this rank's.
  struct Columns {
    int64_t all;
    Range own;
    const BlockSplit& blocks;
    int64_t block;
  };
  Columns columns_of(const partition::ColumnSplit& split) const;
  /// `dropped`: see sparse_gate; 0: none.
  Partial dense_partial(graph::ValueId x, const std::string& prefix, const Columns& columns, double dropped = 0.0);
  Partial dense_partial(graph::ValueId x, int64_t layer);
  /// This rank's gates, less the cut below which the part `dropped` of all ranks' would lie if they were normally
  /// distributed; at least 0.
  graph::ValueId sparse_gate(graph::ValueId gate, double dropped, Range own);
  graph::ValueId route(graph::ValueId x, const std::string& prefix);
  Partial experts_partial(graph::ValueId x, graph::ValueId routes, const std::string& prefix);
  graph::ValueId float_weight(const std::string& name, const Shape& shape);
  graph::ValueId expert_weights(const std::string& prefix, const std::string& name, const Shape& whole,
                                const std::vector<Range>& ranges, std::optional<int64_t> leaf);
  std::vector<graph::ValueId> expert_operands(const std::string& prefix);

  graph::ValueId own_logits(graph::ValueId hidden);
  graph::ValueId next_tokens(graph::ValueId logits);
  void add_outputs(graph::ValueId logits);
  std::vector<graph::ValueId> draw_states();

  const checkpoint::ModelSpec& spec_;
  const partition::Partition& partition_;
  const partition::RankPart& part_;
  const BlockSplit rank_blocks_;  // one leaf a rank
  StepShape shape_;
  Norm norm_;
  graph::GraphBuilder graph_;
  std::map<std::string, Shape> tensors_;

  // Row metadata, [T]: inputs of a prefill or verify step, states (or made from states) of a decode step.
  graph::ValueId ids_, slot_, position_;
  graph::ValueId cache_slot_;  // [T]: where the row's keys and values lie in this rank's caches, or −1
  std::optional<graph::ValueId> layer_inputs_;
  /// By the value that is rounded, how, and the scale.
  std::map<std::tuple<int32_t, checkpoint::ActivationFormat, std::optional<int32_t>>, graph::ValueId> rounded_;
  std::map<int64_t, graph::ValueId> positions_up_to_;  // by their bound
  graph::ValueId wanted_;  // [S]: the row whose next token slot s wants (in a verify step its first row), or −1
};

}  // namespace lockstep::families
