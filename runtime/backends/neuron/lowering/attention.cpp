// Attention over the caches. Token rows form g groups of r rows; a group reads one slot. In a decode step every slot
// (or each of the first ones) has a group; a prefill chunk is one group. With H query heads, P of them for each of G
// cache heads, and R cache rows read:
//
//   q [g, r, G, P, h] · K [R, g, G, h]  ─► scores [g, G, r, P, R] ─ mask, softmax ─► · V ─► [g, r, G · P · h]
//
// If the map from query heads to cache heads is irregular or differs between ranks, K and V are first gathered to one
// head per query head (G = H, P = 1).
#include <algorithm>
#include <optional>

#include "runtime/backends/neuron/lowering/arithmetic.h"
#include "runtime/backends/neuron/lowering/cache.h"
#include "runtime/backends/neuron/lowering/step.h"
#include "runtime/core/check.h"

namespace lockstep::neuron {
namespace {

using hlo::Builder;
using hlo::Direction;
using hlo::Element;
using hlo::Opcode;
using hlo::Value;

/// The score of an invisible key; finite, so that a row without visible keys stays finite.
constexpr double kUnseen = -1e30;

/// The operands of `attention`, in order; then optional per-head values and the query for the pinned keys.
enum AttentionOperand : size_t { kQ, kKeys, kValues, kSlot, kPosition, kPerHead };

class AttentionLowering {
 public:
  explicit AttentionLowering(const NodeView& node)
      : node_(node), b_(node.builder()), cache_(cache_of(node, kKeys)), rows_(node.dims(kQ)[0]) {
    const bool one_slot = node.step().row_layout() == RowLayout::kOfOneSlot;
    groups_ = one_slot ? 1 : std::min(cache_.slots, rows_);  // fewer rows than slots: the first ones
    is_divided_by_slots_ = !one_slot && cache_.slots < node.step().slots();
    if (is_divided_by_slots_ && rows_ >= node.step().slots()) take_own_rows();
    read_rows_ = cache_.capacity;
    const int64_t bound = node.integer_or("bound", 0);
    if (bound > 0) read_rows_ = std::min(read_rows_, bound);
    heads_ = node.dims(kQ)[1] / cache_.head_dim;
    find_head_map();
  }

  Result<void> lower() {
    if (is_divided_by_slots_ && !first_row_) {
      return node_.unsupported(
          "fewer rows than slots where ranks hold the caches of some slots; give one --batch-size, or "
          "another --gqa than batch");
    }
    if (rows_ % groups_ != 0) return node_.unsupported("its rows are no multiple of the slots");
    const Value shares = shares_of(masked_scores());
    const Value v = read(node_.operand(kValues));
    Value y = b_.dot(b_.convert(shares, b_.element_of(v)), v,
                     {.lhs_contracting = {4}, .rhs_contracting = {0}, .lhs_batch = {0, 1}, .rhs_batch = {1, 2}},
                     Element::kF32);  // [g, G, r, P, h]
    y = b_.transpose(y, {0, 2, 1, 3, 4});
    y = b_.reshape(y, {rows_, heads_ * cache_.head_dim});
    if (first_row_) y = b_.concatenate(std::vector<Value>(static_cast<size_t>(node_.dims(kQ)[0] / rows_), y), 0);
    node_.set_result(keep_rows(b_, b_.compare(Direction::kGe, node_.operand(kSlot), 0.0), y));
    return ok();
  }

 private:
  int64_t rows_of_group() const { return rows_ / groups_; }
  Value is_row() { return b_.compare(Direction::kGe, operand(kSlot), 0.0); }

  /// Selects the rows of this rank's slots, if the cache holds only those; they are contiguous.
  void take_own_rows() {
    const graph::ValueId slot = node_.node().operands[kSlot];
    const int64_t of_slot = rows_ / node_.step().slots();
    std::vector<std::vector<int32_t>> first;
    for (int rank = 0; rank < node_.step().ranks(); ++rank) {
      for (const graph::Node& maker : node_.step().graph(rank).nodes) {
        if (maker.op != graph::Op::kOwnSlots || maker.result != slot) continue;
        first.push_back({static_cast<int32_t>(maker.integer("first_slot") * of_slot)});
      }
    }
    LOCKSTEP_CHECK(static_cast<int>(first.size()) == node_.step().ranks(), first.size());
    first_row_ = b_.reshape(node_.step().of_each_rank("first_own_row", first), {});
    rows_ = of_slot * cache_.slots;
  }

  /// An operand with a dimension of token rows, cut to the rows of the groups.
  Value operand(size_t index) {
    const Value all = node_.operand(index);
    if (!first_row_) return all;
    std::vector<Value> start{*first_row_};
    std::vector<int64_t> sizes = b_.dims_of(all);
    for (size_t axis = 1; axis < sizes.size(); ++axis) start.push_back(b_.constant(int32_t{0}));
    sizes[0] = rows_;
    return b_.dynamic_slice(all, start, sizes);
  }

  /// A regular map, equal on all ranks, needs no gather.
  void find_head_map() {
    std::vector<std::vector<int32_t>> maps;
    for (int rank = 0; rank < node_.step().ranks(); ++rank) {
      const std::vector<int64_t>& map = node_.node(rank).integers("head_map");
      maps.emplace_back(map.begin(), map.end());
    }
    const bool are_same = std::all_of(maps.begin(), maps.end(), [&](const auto& map) { return map == maps.front(); });
    bool is_regular = are_same && heads_ % cache_.heads == 0;
    for (size_t i = 0; is_regular && i < maps.front().size(); ++i) {
      is_regular = maps.front()[i] == static_cast<int64_t>(i) / (heads_ / cache_.heads);
    }
    if (!is_regular) head_map_ = node_.step().of_each_rank("head_map", maps);
    cache_heads_ = is_regular ? cache_.heads : heads_;
  }

  /// [R, g, G, h]: the part of a cache that the groups read.
  Value read(Value cache) {
    const int64_t slots = cache_.slots;
    Value rows = b_.slice_dimension(cache, 0, {0, read_rows_ * slots});
    rows = b_.reshape(rows, {read_rows_, slots, cache_.heads, cache_.head_dim});
    if (groups_ < slots && node_.step().row_layout() == RowLayout::kOfEachSlot) {
      rows = b_.slice_dimension(rows, 1, {0, groups_});
    } else if (groups_ < slots) {
      const Value zero = b_.constant(int32_t{0});
      rows =
          b_.dynamic_slice(rows, {zero, slot_of_chunk(), zero, zero}, {read_rows_, 1, cache_.heads, cache_.head_dim});
    }
    return head_map_ ? b_.take(rows, *head_map_, 2) : rows;
  }

  /// The slot of a chunk, from any row except padding.
  Value slot_of_chunk() {
    const Value highest = b_.reduce_max(to_f32(b_, operand(kSlot)), {0});
    return b_.convert(b_.maximum(highest, b_.constant(0.0f)), Element::kS32);
  }

  /// [g, r, G, P, h].
  Value grouped(Value q) {
    return b_.reshape(q, {groups_, rows_of_group(), cache_heads_, heads_ / cache_heads_, cache_.head_dim});
  }

  Value products(Value q, Value keys) {
    return b_.dot(grouped(q), keys,
                  {.lhs_contracting = {4}, .rhs_contracting = {3}, .lhs_batch = {0, 2}, .rhs_batch = {1, 2}},
                  Element::kF32);
  }

  /// q · K, with a separate query for the pinned keys: f32 [g, G, r, P, R].
  Value raw_scores() {
    const Value keys = read(node_.operand(kKeys));
    if (cache_.pinned == 0) return products(operand(kQ), keys);
    const Value pinned_q = operand(node_.operands() - 1);
    const int64_t pinned = std::min(cache_.pinned, read_rows_);
    const Value first = products(pinned_q, b_.slice_dimension(keys, 0, {0, pinned}));
    if (pinned == read_rows_) return first;
    const Value others = products(operand(kQ), b_.slice_dimension(keys, 0, {pinned, read_rows_}));
    return b_.concatenate({first, others}, 4);
  }

  /// s32 [g, r]; 0 for padding.
  Value positions() {
    const Value position = operand(kPosition);
    const Value known = b_.select(is_row(), position, b_.fill_like(position, 0.0));
    return b_.reshape(known, {groups_, rows_of_group()});
  }

  /// s32 [g, R]: the position of each cache row.
  Value key_positions(Value position) {
    const Value newest = rows_of_group() == 1 ? b_.reshape(position, {groups_})
                                              : b_.convert(b_.reduce_max(to_f32(b_, position), {1}), Element::kS32);
    return positions_held(b_, cache_, newest, read_rows_);
  }

  /// `per_head` as [G, P], broadcast to `dims` = [g, G, r, P, …].
  Value per_head(const std::vector<int64_t>& dims) {
    const Value values = to_f32(b_, node_.operand(kPerHead));
    return b_.broadcast(b_.reshape(values, {cache_heads_, heads_ / cache_heads_}), dims, {1, 3});
  }
  bool has_per_head(std::string_view kind) const { return node_.node().has("per_head", kind); }

  Value masked_scores() {
    Value scores = b_.multiply(raw_scores(), node_.node().number("scale"));
    const double cap = node_.number_or("soft_cap", 0.0);
    if (cap > 0) scores = b_.multiply(b_.unary(Opcode::kTanh, b_.divide(scores, b_.fill_like(scores, cap))), cap);
    const std::vector<int64_t> dims = b_.dims_of(scores), place{groups_, rows_of_group(), read_rows_};
    const Value position = positions();
    const Value row = b_.broadcast(position, place, {0, 1});
    const Value key = b_.broadcast(key_positions(position), place, {0, 2});
    if (has_per_head("slopes")) {
      const Value distance = b_.broadcast(to_f32(b_, b_.subtract(key, row)), dims, {0, 2, 4});
      scores = b_.add(scores, b_.multiply(per_head(dims), distance));
    }
    return b_.select(b_.broadcast(visible(row, key), dims, {0, 2, 4}), scores, b_.fill_like(scores, kUnseen));
  }

  /// pred [g, r, R].
  Value visible(Value row, Value key) {
    Value seen = b_.compare(Direction::kLe, key, row);
    if (!cache_.is_ring) return seen;
    const auto window = static_cast<double>(node_.node().integer("window"));
    Value near = b_.compare(Direction::kGt, key, b_.add(row, -window));
    if (node_.node().has("chunked")) {
      const Value since = b_.subtract(row, modulo(b_, row, node_.node().integer("window")));
      near = b_.compare(Direction::kGe, key, since);
    }
    if (cache_.pinned > 0) {
      near = b_.logical_or(near, b_.compare(Direction::kLt, key, static_cast<double>(cache_.pinned)));
    }
    return b_.logical_and(b_.logical_and(seen, near), b_.compare(Direction::kGe, key, 0.0));
  }

  /// The softmax over the last dimension; a sink is included in the sum and then dropped.
  Value shares_of(Value scores) {
    const std::vector<int64_t> dims = b_.dims_of(scores), heads{dims.begin(), dims.end() - 1};
    Value most = b_.reduce_max(scores, {4});
    std::optional<Value> sinks;
    if (has_per_head("sinks")) {
      sinks = per_head(heads);
      most = b_.maximum(most, *sinks);
    }
    const Value weight = b_.unary(Opcode::kExponential, b_.subtract(scores, b_.broadcast(most, dims, {0, 1, 2, 3})));
    Value total = b_.reduce_add(weight, {4});
    if (sinks) total = b_.add(total, b_.unary(Opcode::kExponential, b_.subtract(*sinks, most)));
    return b_.divide(weight, b_.broadcast(total, dims, {0, 1, 2, 3}));
  }

  const NodeView& node_;
  Builder& b_;
  const CacheShape cache_;
  int64_t rows_;                    // of the groups
  std::optional<Value> first_row_;  // of the groups within the step; none: all rows
  int64_t groups_ = 1;
  bool is_divided_by_slots_ = false;  // a decode or verify step with caches of this rank's slots only
  int64_t read_rows_ = 0;
  int64_t heads_ = 0;        // query heads of the largest rank
  int64_t cache_heads_ = 0;  // G
  std::optional<Value> head_map_;
};

}  // namespace

Result<void> lower_attention(const NodeView& node) { return AttentionLowering(node).lower(); }

}  // namespace lockstep::neuron
