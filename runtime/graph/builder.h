// Builds a graph node by node. Each method infers the type of its result and checks its operands; a misuse is a bug of
// the family that calls it, so it is a failed check and not an error. Values are added in the order of the calls.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "runtime/graph/graph.h"

namespace lockstep::graph {

/// The facts of a graph that are known before its first node.
struct GraphHeader {
  std::string name;
  int ranks = 1;
  int rank = 0;
  int64_t rows = 0;
  int64_t slots = 0;
};

class GraphBuilder {
 public:
  explicit GraphBuilder(GraphHeader header);

  ValueId input(std::string name, TensorType type);
  /// A weight whose slices are laid along dimension 0. Asking again for the same name and contents gives the same
  /// value.
  ValueId weight(std::string name, TensorType type, std::vector<WeightSlice> slices);
  /// A state; asking again for the same name and type gives the same value.
  ValueId state(std::string name, TensorType type);
  ValueId constant(std::string name, std::vector<float> contents);

  /// Adds any operation. The methods below are this with the attributes spelt out.
  std::optional<ValueId> add_node(Op op, std::vector<ValueId> operands, Attributes attributes = {});

  /// f32[1, T, d]: row t is `table[ids[t] − first_row]`, zeros where that row is another rank's.
  ValueId embedding(ValueId ids, ValueId table, int64_t first_row);
  /// dt[T, N] = x · wᵀ (+ bias), summed in f32; `result` may ask for f32.
  ValueId linear(ValueId x, ValueId weight, std::optional<ValueId> bias = std::nullopt,
                 std::optional<DType> result = std::nullopt);
  /// f32[roots, T, N]: the partial sums of rank `rank`'s blocks of `block` columns, by the tree of `split`.
  ValueId linear_blocks(ValueId x, ValueId weight, const BlockSplit& split, int64_t block);
  /// dt[T, N]: the sum over all ranks' roots, rounded once to `result`.
  ValueId all_reduce(ValueId partial, const BlockSplit& split, DType result);
  /// dt[R, Σ parts]: the ranks' columns side by side; `parts[r]` columns come from rank r.
  ValueId all_gather(ValueId x, std::vector<int64_t> parts);
  /// x + y; y may be one row that is added to each.
  ValueId add(ValueId x, ValueId y);
  ValueId rms_norm(ValueId x, ValueId weight, double epsilon);
  /// Rotates the halves of each head by position · frequency; cos and sin are multiplied by `scale`.
  ValueId rope(ValueId x, ValueId position, ValueId frequencies, int64_t heads, double scale);
  void kv_append(ValueId rows, ValueId cache, ValueId slot, ValueId position);
  /// dt[T, heads · head_dim]; `head_map[h]` is the cache's head that query head h reads; `kernel` "prefill" or
  /// "decode".
  ValueId attention(ValueId q, ValueId k_cache, ValueId v_cache, ValueId slot, ValueId position,
                    std::vector<int64_t> head_map, double scale, std::string kernel);
  ValueId gated_activation(ValueId gate, ValueId up, std::string activation);
  ValueId columns(ValueId x, Range range);
  ValueId select_rows(ValueId x, ValueId rows);
  ValueId running_slots(ValueId active, ValueId finished);
  void mark_seen(ValueId seen, ValueId ids, ValueId slot);
  void advance(ValueId length, ValueId slot);
  void agree(std::vector<ValueId> operands);
  ValueId sample(std::vector<ValueId> operands);

  void output(std::string name, ValueId value);

  const TensorType& type_of(ValueId value) const { return graph_.value(value).type; }
  int64_t rows() const { return graph_.rows; }
  int64_t slots() const { return graph_.slots; }

  /// The finished graph, verified (a failed check if it is not sound). The builder is empty afterwards.
  Graph finish() &&;

 private:
  ValueId add_value(Value value);
  ValueId add_result(Op op, std::vector<ValueId> operands, Attributes attributes);

  Graph graph_;
  int64_t results_ = 0;  // made so far; a result's name is its number
};

}  // namespace lockstep::graph
