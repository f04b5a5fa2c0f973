// Builds a graph node by node, in the order of the calls.
//
// Each method infers the type of its result and checks its operands. A misuse is a bug in the calling family, so it is
// a failed check, not an error.
#pragma once

#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/graph/graph.h"

namespace lockstep::graph {

/// The properties of a graph that are known before its first node.
struct GraphHeader {
  std::string name;
  int ranks = 1;
  int rank = 0;
  int64_t rows = 0;
  int64_t slots = 0;
};

/// What a product with a weight in codes multiplies: x, or x as 8-bit integers in the groups of the weight.
enum class Activations { kAsTheyAre, kInt8 };

/// The optional operands and attributes of an attention node. An absent one is off.
struct AttentionOptions {
  std::vector<int64_t> head_map;    // the KV head that each query head reads
  double scale = 1.0;               // on q · k
  std::string kernel;               // "prefill" or "decode"
  int64_t window = 0;               // keys that a token sees, including itself; 0: all
  bool chunked = false;             // of these, only the keys since the last multiple of `window`
  int64_t pinned = 0;               // first positions that stay visible beyond the window
  double soft_cap = 0.0;            // c · tanh(score / c); 0: none
  int64_t bound = 0;                // upper bound of all positions; 0: the cache's capacity
  int64_t value_columns = 0;        // the first ones of a key, which are its value; 0: values have a cache of their own
  std::optional<ValueId> sinks;     // [heads]: a logit of the softmax's denominator
  std::optional<ValueId> slopes;    // f32 [heads]: times (key − query position) is added to a score
  std::optional<ValueId> pinned_q;  // the query used for the pinned keys
};

/// How a moe_route node chooses experts and weighs them (OPERATIONS.md, Routes).
struct RouteOptions {
  int64_t chosen = 1;
  std::string scores = "softmax";  // or sigmoid
  std::string over = "chosen";     // whose scores a route is divided by: the chosen ones'; all: not divided
  std::optional<ValueId> bias;     // f32 [experts]: added to the scores for the choice only
  int64_t groups = 1;
  int64_t kept_groups = 1;
  std::string group_score = "best";  // or best_two
  double least_sum = 0.0;            // of the divisor
  double scale = 1.0;                // on the routes
};

/// Rounding to codes in 8 bits, as by `fake_quantise` without a scale of the files.
struct Rounding {
  std::string codes;             // int8 or e4m3
  std::optional<int64_t> group;  // columns; empty: all
};

/// Which experts a moe_experts node holds and how it sums them.
struct ExpertOptions {
  Range experts;                // of all experts; gate, up and down hold these experts' rows one after the other
  bool leaf_is_expert = false;  // otherwise a leaf is `block` columns of every expert
  BlockSplit split;
  int64_t block = 1;
  std::string activation;
  double limit = 0.0;  // clamped_swiglu
  double alpha = 0.0;  // clamped_swiglu
  bool routes_on_inputs = false;
  Activations activations = Activations::kAsTheyAre;
  std::optional<Rounding> rounding;  // of what down reads
};

class GraphBuilder {
 public:
  explicit GraphBuilder(GraphHeader header);

  ValueId input(std::string name, TensorType type);
  /// A weight whose slices are concatenated along dimension 0; with a format, in codes. The same name and contents
  /// return the same value.
  ValueId weight(std::string name, TensorType type, std::vector<WeightSlice> slices,
                 std::optional<WeightFormat> format = std::nullopt);
  /// A state; the same name and type return the same value.
  ValueId state(std::string name, TensorType type);
  ValueId constant(std::string name, std::vector<float> contents);

  /// Adds any operation. The methods below call it with named arguments.
  std::optional<ValueId> add_node(Op op, std::vector<ValueId> operands, Attributes attributes = {});

  /// f32[1, T, d]: row t is `table[ids[t] − first_row]`; zeros where another rank holds the row.
  ValueId embedding(ValueId ids, ValueId table, int64_t first_row);
  /// dt[T, N] = x · wᵀ (+ bias), summed in f32. `result` may be f32.
  ValueId linear(ValueId x, ValueId weight, std::optional<ValueId> bias = std::nullopt,
                 std::optional<DType> result = std::nullopt, Activations activations = Activations::kAsTheyAre);
  /// f32[roots, T, N]: the partial sums of rank `rank`'s blocks of `block` columns, by the tree of `split`.
  ValueId linear_blocks(ValueId x, ValueId weight, const BlockSplit& split, int64_t block,
                        Activations activations = Activations::kAsTheyAre);
  /// dt[T, heads · b] from x [T, heads · a]: each head's columns times its own b rows of the weight [heads · b, a].
  ValueId head_linear(ValueId x, ValueId weight, int64_t heads);
  /// dt[T, N]: the sum over all ranks' roots, rounded once to `result`.
  ValueId all_reduce(ValueId partial, const BlockSplit& split, DType result);
  /// dt[R, Σ parts]: the ranks' columns side by side; rank r contributes `parts[r]` columns.
  ValueId all_gather(ValueId x, std::vector<int64_t> parts);
  /// dt[T, d]: row `index + offset` of a table, of which every rank holds all rows; for an index outside it, zeros or
  /// the row `otherwise`.
  ValueId lookup(ValueId index, ValueId table, int64_t offset, std::optional<int64_t> otherwise = std::nullopt);
  /// x + y; y may be one row that is added to each.
  ValueId add(ValueId x, ValueId y);
  /// f32[roots, T, N + M]: two partial results with the same leaves side by side. One all_reduce then serves both, and
  /// each keeps its own order of sums.
  ValueId join_partials(ValueId x, ValueId y);
  /// [R, N + M]: for each of `heads` groups of columns, those of x and then those of y.
  ValueId join_heads(ValueId x, ValueId y, int64_t heads);
  /// x · y; y may be one factor, or one row of them for all rows.
  ValueId multiply(ValueId x, ValueId y);
  ValueId scale(ValueId x, double factor);
  /// Each row of x times its factor, f32[R, 1].
  ValueId scale_rows(ValueId x, ValueId factors);
  /// x · factors[(position + offset) / every]; the last factor beyond.
  ValueId scale_by_position(ValueId x, ValueId position, ValueId factors, int64_t every, int64_t offset);
  ValueId soft_cap(ValueId x, double cap);
  /// max(x − (mean + deviations · standard deviation), 0) with the mean and deviation of each row.
  ValueId cut_off(ValueId x, double deviations);
  /// The columns order[0], order[1], … of x.
  ValueId take_columns(ValueId x, ValueId order);
  /// x times the root mean square of each row of `like`, divided by its own; a mean square counts as at least `least`.
  ValueId match_magnitude(ValueId x, ValueId like, double least);
  /// Σ (factors[:, first + i] + offset) · terms[i] for at most `kMostTerms` terms.
  ValueId weighted_sum(ValueId factors, int64_t first, const std::vector<ValueId>& terms, double offset = 0.0);
  /// f32[R, N]: x rounded to codes "int8" or "e4m3" times a scale: of each row, of every `group` columns of it, or the
  /// given one.
  ValueId fake_quantise(ValueId x, std::string_view codes, std::optional<int64_t> group = std::nullopt,
                        std::optional<ValueId> scale = std::nullopt);
  /// Applies RMS norm to each of `heads` groups of columns; the factor is the weight (1 without one) plus the offset.
  /// An offset, even of 0, means that only the product with the factor is rounded.
  ValueId rms_norm(ValueId x, std::optional<ValueId> weight, double epsilon, int64_t heads = 1,
                   std::optional<double> offset = std::nullopt);
  /// The factor is weight + offset.
  ValueId layer_norm(ValueId x, ValueId weight, std::optional<ValueId> bias, double epsilon, double offset = 0.0);
  /// Rotates pairs of each head's elements by position · frequency; cos and sin are multiplied by `scale`. `operands`
  /// are x, position, frequencies, and, where rows differ, long_frequencies, is_long, slot.
  ValueId rope(std::vector<ValueId> operands, int64_t heads, double scale, std::string pairs = "halves");
  ValueId clamp_positions(ValueId position, int64_t most);
  /// Writes rows to the cache. With a `window`, the rows after the first `pinned` ones are a ring buffer.
  void kv_append(ValueId rows, ValueId cache, ValueId slot, ValueId position, int64_t window = 0, int64_t pinned = 0);
  /// dt[T, heads · head_dim].
  ValueId attention(ValueId q, ValueId k_cache, ValueId v_cache, ValueId slot, ValueId position,
                    AttentionOptions options);
  /// dt[T, N]: each channel convolved with its taps over the slot's last rows. `activation` may be empty. `rows` is the
  /// state of the last inputs.
  ValueId causal_conv(ValueId x, ValueId weight, ValueId rows, ValueId slot, ValueId position, std::string activation);
  /// dt[T, value heads · head size]; operands as in OPERATIONS.md.
  ValueId gated_delta_rule(std::vector<ValueId> operands, std::vector<int64_t> head_map, double epsilon);
  ValueId activation(ValueId x, std::string activation);
  ValueId gated_activation(ValueId gate, ValueId up, std::string activation);
  /// f32[T, E]: the weights of the chosen experts; zeros elsewhere.
  ValueId moe_route(ValueId logits, const RouteOptions& options);
  /// f32[roots, T, d]; `operands` are x, route, gate, up, down and, if there are any, their three biases.
  ValueId moe_experts(std::vector<ValueId> operands, const ExpertOptions& options);
  ValueId columns(ValueId x, Range range);
  ValueId select_rows(ValueId x, ValueId rows);
  /// i32[T]: the first elements of `x` i32[S], for steps with fewer rows than slots.
  ValueId first_rows(ValueId x);
  ValueId running_slots(ValueId active, ValueId finished);
  /// i32[T]: this rank's slots counted from 0, −1 for others; every rank holds `slots` consecutive slots.
  ValueId own_slots(ValueId slot, int64_t slots);
  /// dt[T, parts[rank]]: this rank's columns of each row, taken from the rank that holds the row's slot.
  ValueId rows_of_owners(ValueId x, ValueId slot, int64_t slots, std::vector<int64_t> parts);
  void mark_seen(ValueId seen, ValueId ids, ValueId slot);
  void advance(ValueId length, ValueId slot);
  void agree(std::vector<ValueId> operands);
  ValueId sample(std::vector<ValueId> operands);
  ValueId accept(std::vector<ValueId> operands);
  /// f32[T, 1 + 2 · top]: log-probability of each row's target, then the likeliest ids and their log-probabilities.
  ValueId score(ValueId logits, ValueId targets, int64_t top);

  void output(std::string name, ValueId value);

  const TensorType& type_of(ValueId value) const { return graph_.value(value).type; }
  const Value& value(ValueId id) const { return graph_.value(id); }
  int64_t rows() const { return graph_.rows; }
  int64_t slots() const { return graph_.slots; }

  /// The finished graph, verified (an unsound graph is a failed check). The builder is empty afterwards.
  Graph finish() &&;

 private:
  ValueId add_value(Value value);
  ValueId add_result(Op op, std::vector<ValueId> operands, Attributes attributes);

  Graph graph_;
  std::unordered_map<std::string, ValueId> ids_;  // of every value, by name
  int64_t results_ = 0;                           // number of results so far, and the next result's name
};

}  // namespace lockstep::graph
