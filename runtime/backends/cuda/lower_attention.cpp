// Lowering of positions, caches and attention.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "runtime/backends/cuda/lowering.h"

namespace lockstep::cuda {
namespace {

/// Rows that take their tiles side by side, and what their tiles may need of the workspace.
constexpr int64_t kMostSplitRows = 32;
constexpr int64_t kMostSplitBytes = int64_t{64} << 20;
constexpr int64_t kMostSplitBlocks = 1024;  // 8 of 132 multiprocessors

int32_t integer_or_zero(const graph::Node& node, std::string_view name) {
  return node.has(name) ? static_cast<int32_t>(node.integer(name)) : 0;
}

/// Query heads in chunks of one head of the cache each, filled up with −1.
std::vector<int32_t> chunks_of_heads(const std::vector<int64_t>& head_map, int64_t heads_at_once) {
  std::map<int64_t, std::vector<int32_t>> by_cache_head;
  for (size_t head = 0; head < head_map.size(); ++head)
    by_cache_head[head_map[head]].push_back(static_cast<int32_t>(head));
  std::vector<int32_t> chunks;
  for (auto& [cache_head, heads] : by_cache_head) {
    while (std::ssize(heads) % heads_at_once != 0) heads.push_back(-1);
    chunks.insert(chunks.end(), heads.begin(), heads.end());
  }
  return chunks;
}

}  // namespace

/// Cosines and sines [rows, half] for a rope node: computed once in a step for all nodes that turn alike.
std::pair<uint64_t, uint64_t> Lowering::turn_tables(const Node& node) {
  const std::pair key{std::vector<ValueId>(node.operands.begin() + 1, node.operands.end()), node.number("scale")};
  if (const auto found = turn_tables_.find({key.first, key.second}); found != turn_tables_.end()) return found->second;
  const Tensor& y = result(node);
  const int64_t half = operand(node, 2).columns;
  const bool has_long = node.operands.size() > 3;
  const int64_t bytes = y.rows * half * 4;
  const auto take = [&] { return bases_.workspace + static_cast<uint64_t>(space_.take((bytes + 255) / 256 * 256)); };
  const std::pair<uint64_t, uint64_t> tables{take(), take()};  // until the end of the step
  const TurnTableParameters parameters{.position = operand(node, 1).as<int32_t>(),
                                       .frequencies = operand(node, 2).as<float>(),
                                       .long_frequencies = has_long ? operand(node, 3).as<float>() : nullptr,
                                       .is_long = has_long ? operand(node, 4).as<int32_t>() : nullptr,
                                       .slot = has_long ? operand(node, 5).as<int32_t>() : nullptr,
                                       .cosines = reinterpret_cast<float*>(tables.first),
                                       .sines = reinterpret_cast<float*>(tables.second),
                                       .rows = rows_of(y),
                                       .slots = has_long ? static_cast<int32_t>(operand(node, 4).columns) : 0,
                                       .half = static_cast<int32_t>(half),
                                       .scale = static_cast<float>(node.number("scale"))};
  emit("turn_table", parameters, (y.rows * half + kTurnThreads - 1) / kTurnThreads);
  turn_tables_.emplace(std::tuple(key.first, key.second), tables);
  return tables;
}

void Lowering::lower_rope(const Node& node) {
  const Tensor& x = operand(node, 0);
  const Tensor& y = result(node);
  const auto [cosines, sines] = turn_tables(node);
  const int64_t heads = node.integer("heads");
  const TurnParameters parameters{.x = x.data(),
                                  .y = y.data(),
                                  .cosines = reinterpret_cast<const float*>(cosines),
                                  .sines = reinterpret_cast<const float*>(sines),
                                  .x_stride = x.stride,
                                  .y_stride = y.stride,
                                  .rows = rows_of(y),
                                  .heads = static_cast<int32_t>(heads),
                                  .head_dim = static_cast<int32_t>(heads > 0 ? y.columns / heads : 0),
                                  .half = static_cast<int32_t>(operand(node, 2).columns),
                                  .neighbours = node.has("pairs") && node.text("pairs") == "neighbours"};
  emit(typed("turn", x.dtype), parameters, y.columns > 0 ? y.rows : 0);
}

Result<void> Lowering::lower_append(const Node& node) {
  const CacheLayout* cache = layout_.cache(graph_.value(node.operands[1]).name);
  if (cache == nullptr) return invalid("found a cache that the store does not have, expected a store of this graph");
  const Tensor& x = operand(node, 0);
  const AppendParameters parameters{.x = x.data(),
                                    .cache = operand(node, 1).data(),
                                    .slot = operand(node, 2).as<int32_t>(),
                                    .position = operand(node, 3).as<int32_t>(),
                                    .x_stride = x.stride,
                                    .tiles = cache->for_kernels(),
                                    .rows = rows_of(x),
                                    .heads = static_cast<int32_t>(cache->heads),
                                    .head_dim = static_cast<int32_t>(cache->head_dim)};
  emit(sized("append", x.dtype), parameters, x.columns > 0 ? x.rows : 0);
  return ok();
}

Result<void> Lowering::lower_attention(const Node& node) {
  const CacheLayout* keys = layout_.cache(graph_.value(node.operands[1]).name);
  const CacheLayout* values = layout_.cache(graph_.value(node.operands[2]).name);
  if (keys == nullptr || values == nullptr) {
    return invalid("found a cache that the store does not have, expected a store of this graph");
  }
  const bool is_alike = keys->tile_stride == values->tile_stride && keys->slot_stride == values->slot_stride &&
                        keys->held.is_ring == values->held.is_ring && keys->held.pinned == values->held.pinned;
  if (!is_alike) return unsupported("found keys and values in caches of unlike form, expected equal ones");
  if (keys->head_dim > kMostHeadDim) {
    return unsupported(fmt::format("found heads of {} columns, expected at most {}", keys->head_dim, kMostHeadDim));
  }
  const Tensor& q = operand(node, 0);
  const Tensor& y = result(node);
  const std::vector<int64_t>& head_map = node.integers("head_map");
  size_t next = 5;
  const Tensor* sinks = nullptr;
  const Tensor* slopes = nullptr;
  if (node.has("per_head")) (node.text("per_head") == "sinks" ? sinks : slopes) = &operand(node, next++);
  const Tensor* per_head = sinks == nullptr ? slopes : sinks;
  const bool is_float_per_head = per_head != nullptr && per_head->dtype == DType::kFloat32;
  if (per_head != nullptr && !is_float_per_head && per_head->dtype != q.dtype) {
    return unsupported(fmt::format("found numbers per head of type {}, expected f32 or the queries' {}",
                                   to_string(per_head->dtype), to_string(q.dtype)));
  }
  const int32_t pinned = integer_or_zero(node, "pinned");
  const Tensor* pinned_q = pinned > 0 && node.operands.size() > next ? &operand(node, next) : nullptr;
  const AttendParameters parameters{
      .q = q.data(),
      .pinned_q = pinned_q == nullptr ? nullptr : pinned_q->data(),
      .keys = operand(node, 1).data(),
      .values = operand(node, 2).data(),
      .slot = operand(node, 3).as<int32_t>(),
      .position = operand(node, 4).as<int32_t>(),
      .head_map = table_of(head_map),
      .slopes = slopes == nullptr ? nullptr : slopes->data(),
      .sinks = sinks == nullptr ? nullptr : sinks->data(),
      .y = y.data(),
      .q_stride = q.stride,
      .pinned_q_stride = pinned_q == nullptr ? 0 : pinned_q->stride,
      .y_stride = y.stride,
      .tiles = keys->for_kernels(),
      .rows = rows_of(y),
      .heads = static_cast<int32_t>(head_map.size()),
      .head_dim = static_cast<int32_t>(keys->head_dim),
      .window = integer_or_zero(node, "window"),
      .pinned = pinned,
      .scale = static_cast<float>(node.number("scale")),
      .soft_cap = node.has("soft_cap") ? static_cast<float>(node.number("soft_cap")) : 0.0f,
      .is_float_per_head = is_float_per_head};
  if (y.rows > kMostSplitRows && attend_rows(node, parameters, *keys)) return ok();
  const int64_t heads = std::ssize(head_map), tiles = (keys->held.capacity + kTileTokens - 1) / kTileTokens;
  const int64_t places = y.rows * heads * tiles;
  // In a ring tiles come again, and there are few of them.
  if (keys->held.is_ring || y.rows > kMostSplitRows || places * keys->head_dim * 4 > kMostSplitBytes) {
    emit(typed("attend", q.dtype), parameters, y.rows * heads);
    return ok();
  }
  const AttendTilesParameters split{
      .attend = parameters,
      .of_rows = {.maxima = reinterpret_cast<float*>(scratch(places * 4)),
                  .sums = reinterpret_cast<float*>(scratch(places * 4)),
                  .values = reinterpret_cast<float*>(scratch(places * keys->head_dim * 4)),
                  .tiles = static_cast<int32_t>(tiles)}};
  emit(typed("attend_tiles", q.dtype), split, std::min(places, kMostSplitBlocks));
  emit(typed("attend_fold", q.dtype), split, y.rows * heads);
  return ok();
}

/// Gives many rows a kernel in which they share tiles; false: it cannot take them.
bool Lowering::attend_rows(const Node& node, const AttendParameters& attend, const CacheLayout& cache) {
  const int64_t bytes_of_head = cache.head_dim * cache.element_size();
  if (cache.head_dim > kRowsHeadDim || bytes_of_head % 16 != 0 || attend.pinned_q != nullptr) return false;
  const std::vector<int64_t>& head_map = node.integers("head_map");
  int64_t widest = 1;  // query heads of a head of the cache
  for (const int64_t head : head_map) widest = std::max<int64_t>(widest, std::ranges::count(head_map, head));
  const int64_t at_once = std::min<int64_t>(widest, kRowsHeads);
  const std::vector<int32_t> heads = chunks_of_heads(head_map, at_once);
  const int64_t rows = kRowsQueries / at_once, chunks = std::ssize(heads) / at_once;
  const AttendRowsParameters parameters{.attend = attend,
                                        .heads = table(std::span<const int32_t>(heads)),
                                        .chunks = static_cast<int32_t>(chunks),
                                        .heads_at_once = static_cast<int32_t>(at_once),
                                        .rows_of_block = static_cast<int32_t>(rows)};
  if (chunks == 0) return true;
  emit(typed("attend_rows", cache.dtype), parameters, (attend.rows.rows + rows - 1) / rows * chunks);
  plan_.launches.back().shape.shared_bytes = attend_rows_bytes(cache.head_dim);
  return true;
}

}  // namespace lockstep::cuda
