// Lowering of positions, caches and attention.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "runtime/backends/cuda/lowering.h"

namespace lockstep::cuda {
namespace {

using graph::Op;

/// What the tiles of rows may need of the workspace.
constexpr int64_t kMostSplitBytes = int64_t{64} << 20;
/// The same where values are columns of the keys: there many query heads have wide results of few bytes of cache.
constexpr int64_t kMostSplitBytesInKeys = int64_t{256} << 20;
constexpr int64_t kBlocksOfMultiprocessor = 3;
/// Tiles, and columns of a group's results, that one block folds; more are folded by a later launch, in which every
/// query head has blocks.
constexpr int64_t kMostFoldedTiles = 64;
constexpr int64_t kMostFoldedColumns = 4096;

int32_t integer_or_zero(const graph::Node& node, std::string_view name) {
  return static_cast<int32_t>(node.integer_or(name, 0));
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

/// The kernel `name` for a cache of elements or in codes.
std::string kernel_over(std::string_view name, const CacheLayout& cache) {
  return fmt::format("{}{}", name, has_row_scales(cache.dtype) ? "_codes" : "");
}

/// Whether a tile of keys holds the values, too.
bool values_in_keys(const AttendParameters& attend) { return attend.values == attend.keys; }

/// How many queries a row and head has: those for pinned positions may be others.
int64_t query_sets(const AttendParameters& attend) { return attend.pinned_q == nullptr ? 1 : 2; }

/// Tiles that a row may need: those of its window and pinned ones, or all of a slot.
int64_t tiles_of_row(const AttendParameters& attend, const CacheLayout& cache) {
  const auto tiles_of = [](int64_t positions) { return (positions + kTileTokens - 1) / kTileTokens; };
  const int64_t of_window = tiles_of(attend.pinned) + tiles_of(attend.window - 1) + 1;
  if (cache.held.is_ring) return of_window;
  const int64_t all = tiles_of(cache.held.capacity);
  return attend.window > 0 ? std::min(all, of_window) : all;
}

}  // namespace

/// How a rope node's heads turn. Its tables are computed once in a step for all nodes that turn alike.
Turn Lowering::turn_of(const Node& rope) {
  const std::pair key{std::vector<ValueId>(rope.operands.begin() + 1, rope.operands.end()), rope.number("scale")};
  const Tensor& position = operand(rope, 1);
  const Tensor& frequencies = operand(rope, 2);
  const int64_t half = frequencies.columns;
  auto found = turn_tables_.find({key.first, key.second});
  if (found == turn_tables_.end()) {
    const bool has_long = rope.operands.size() > 3;
    const int64_t rows = position.columns;
    const int64_t bytes = rows * half * 4;
    const auto take = [&] { return bases_.workspace + static_cast<uint64_t>(space_.take((bytes + 255) / 256 * 256)); };
    const std::pair<uint64_t, uint64_t> tables{take(), take()};  // until the end of the step
    Tensor counted = position;
    counted.rows = rows;
    counted.is_token_rows = token_rows_[static_cast<size_t>(rope.result->value)];
    const TurnTableParameters parameters{.position = position.as<int32_t>(),
                                         .frequencies = frequencies.as<float>(),
                                         .long_frequencies = has_long ? operand(rope, 3).as<float>() : nullptr,
                                         .is_long = has_long ? operand(rope, 4).as<int32_t>() : nullptr,
                                         .slot = has_long ? operand(rope, 5).as<int32_t>() : nullptr,
                                         .cosines = reinterpret_cast<float*>(tables.first),
                                         .sines = reinterpret_cast<float*>(tables.second),
                                         .rows = rows_of(counted),
                                         .slots = has_long ? static_cast<int32_t>(operand(rope, 4).columns) : 0,
                                         .half = static_cast<int32_t>(half),
                                         .scale = static_cast<float>(rope.number("scale"))};
    emit("turn_table", parameters, (rows * half + kTurnThreads - 1) / kTurnThreads);
    found = turn_tables_.emplace(std::tuple(key.first, key.second), tables).first;
  }
  return {.cosines = reinterpret_cast<const float*>(found->second.first),
          .sines = reinterpret_cast<const float*>(found->second.second),
          .half = static_cast<int32_t>(half),
          .neighbours = rope.has("pairs", "neighbours")};
}

void Lowering::lower_rope(const Node& node) {
  const Tensor& x = operand(node, 0);
  const Tensor& y = result(node);
  const int64_t heads = node.integer("heads");
  const TurnParameters parameters{.x = x.data(),
                                  .y = y.data(),
                                  .x_stride = x.stride,
                                  .y_stride = y.stride,
                                  .turn = turn_of(node),
                                  .rows = rows_of(y),
                                  .heads = static_cast<int32_t>(heads),
                                  .head_dim = static_cast<int32_t>(heads > 0 ? y.columns / heads : 0)};
  emit(typed("turn", x.dtype), parameters, y.columns > 0 ? y.rows : 0);
}

/// The heads that `node` (a turn, a norm, a join or an append) is the last to prepare.
Result<HeadsPart> Lowering::heads_part(const Node& node, size_t attention, int64_t head_dim) {
  HeadsPart part{};
  ValueId x = node.op == Op::kKvAppend ? node.operands[0] : *node.result;
  if (node.op == Op::kKvAppend) {
    part.cache = operand(node, 1).data();
  } else {
    LOCKSTEP_TRY_VOID(place_result(node));
    part.y = result(node).data();
    part.y_stride = result(node).stride;
  }
  const auto made_by = [&](ValueId heads) -> const Node* {  // if the launch computes that node
    const auto maker = flow_.maker(heads);
    const bool is_part = maker && fusion_.nodes[*maker] == Fused{Fused::As::kHeadsOf, static_cast<int32_t>(attention)};
    return is_part ? &graph_.nodes[*maker] : nullptr;
  };
  if (const Node* join = made_by(x); join != nullptr && join->op == Op::kJoinHeads) {
    ValueId rest = join->operands[1];
    if (const Node* rope = made_by(rest); rope != nullptr) {
      part.rest.turn = turn_of(*rope);
      rest = rope->operands[0];
    }
    part.rest.x = tensor(rest).data();
    part.rest.x_stride = tensor(rest).stride;
    part.rest.columns = tensor(rest).columns / join->integer("heads");
    x = join->operands[0];
  }
  for (const Node* made = made_by(x); made != nullptr; made = made_by(x)) {
    if (made->op == Op::kRope) {
      part.turn = turn_of(*made);
    } else {
      part.norm = norm_of(*made);
    }
    x = made->operands[0];
  }
  part.x = tensor(x).data();
  part.x_stride = tensor(x).stride;
  part.heads = static_cast<int32_t>(tensor(x).columns / (head_dim - part.rest.columns));
  return part;
}

/// Queries, keys and values as an attention's launch takes them.
Result<void> Lowering::prepare_heads(const Node& attention, const CacheLayout& cache) {
  const size_t index = index_of(attention);
  HeadsParameters parameters{};
  int count = 0;
  for (const size_t part : fusion_.parts_of(index, Fused::As::kHeadsOf)) {
    const Node& node = graph_.nodes[part];
    const bool is_last = node.op == Op::kKvAppend || std::ranges::count(attention.operands, *node.result) > 0;
    if (!is_last) continue;
    LOCKSTEP_CHECK(count < kMostHeadsParts, count);
    LOCKSTEP_TRY(parameters.parts[count], heads_part(node, index, cache.head_dim));
    parameters.heads_of_row += parameters.parts[count++].heads;
  }
  if (count == 0) return ok();
  const Tensor& y = result(attention);
  parameters.slot = operand(attention, 3).as<int32_t>();
  parameters.position = operand(attention, 4).as<int32_t>();
  parameters.tiles = cache.for_kernels();
  parameters.rows = rows_of(y);
  parameters.head_dim = static_cast<int32_t>(cache.head_dim);
  const int threads = std::min(kHeadsThreads, static_cast<int>((cache.head_dim + 31) / 32 * 32));
  const bool has_rest =
      std::ranges::any_of(parameters.parts, [](const HeadsPart& part) { return part.rest.columns > 0; });
  emit(typed(has_rest ? "prepare_heads_joined" : "prepare_heads", y.dtype), parameters,
       y.rows * parameters.heads_of_row, {.threads = threads});
  return ok();
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
  emit(has_row_scales(cache->dtype) ? typed("append_codes", x.dtype) : sized("append", x.dtype), parameters,
       x.columns > 0 ? x.rows : 0);
  return ok();
}

Result<void> Lowering::lower_attention(const Node& node) {
  const CacheLayout* keys = layout_.cache(graph_.value(node.operands[1]).name);
  const CacheLayout* values = layout_.cache(graph_.value(node.operands[2]).name);
  if (keys == nullptr || values == nullptr) {
    return invalid("found a cache that the store does not have, expected a store of this graph");
  }
  const bool is_alike = keys->tile_stride == values->tile_stride && keys->slot_stride == values->slot_stride &&
                        keys->held.is_ring == values->held.is_ring && keys->held.pinned == values->held.pinned &&
                        keys->dtype == values->dtype;
  if (!is_alike) return unsupported("found keys and values in caches of unlike form, expected equal ones");
  const int64_t value_columns = node.integer_or("value_columns", values->head_dim);
  if (keys->head_dim > kMostHeadDim || value_columns > kMostValueColumns) {
    return unsupported(fmt::format("found heads of {} columns and values of {}, expected at most {} and {}",
                                   keys->head_dim, value_columns, kMostHeadDim, kMostValueColumns));
  }
  LOCKSTEP_TRY_VOID(prepare_heads(node, *keys));
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
  const AttendParameters parameters{.q = q.data(),
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
                                    .value_columns = static_cast<int32_t>(value_columns),
                                    .window = integer_or_zero(node, "window"),
                                    .is_chunked = integer_or_zero(node, "chunked"),
                                    .pinned = pinned,
                                    .scale = static_cast<float>(node.number("scale")),
                                    .soft_cap = static_cast<float>(node.number_or("soft_cap", 0.0)),
                                    .is_float_per_head = is_float_per_head};
  if (attend_tiles(node, parameters, *keys) || attend_rows(node, parameters, *keys)) return ok();
  emit(typed(kernel_over("attend", *keys), y.dtype), parameters, y.rows * std::ssize(head_map));
  return ok();
}

/// Gives rows a kernel in which they share tiles; false: it cannot take them. In 16 bits it takes all.
bool Lowering::attend_rows(const Node& node, const AttendParameters& attend, const CacheLayout& cache) {
  const DType dtype = result(node).dtype;
  const bool is_16 = size_of(dtype) == 2;
  const bool is_aligned = has_row_scales(cache.dtype) || cache.row_bytes() % 16 == 0;
  const bool fits = cache.head_dim <= kRowsHeadDim && is_aligned && attend.pinned_q == nullptr;
  if (!is_16 && !fits) return false;
  const std::vector<int64_t>& head_map = node.integers("head_map");
  int64_t widest = 1;  // query heads of a head of the cache
  for (const int64_t head : head_map) widest = std::max<int64_t>(widest, std::ranges::count(head_map, head));
  const int64_t at_once = std::min<int64_t>(widest, is_16 ? kRows16Heads : kRowsHeads);
  const std::vector<int32_t> heads = chunks_of_heads(head_map, at_once);
  const int64_t chunks = std::ssize(heads) / at_once;
  const auto blocks = [&](int64_t queries) {  // of a part
    return (attend.rows.rows + queries / at_once - 1) / (queries / at_once) * chunks;
  };
  const auto emit_rows = [&](const char* kernel, int threads, int64_t queries, int64_t parts, int64_t shared) {
    const AttendRowsParameters parameters{.attend = attend,
                                          .heads = table(std::span<const int32_t>(heads)),
                                          .chunks = static_cast<int32_t>(chunks),
                                          .heads_at_once = static_cast<int32_t>(at_once),
                                          .rows_of_block = static_cast<int32_t>(queries / at_once),
                                          .parts = static_cast<int32_t>(parts),
                                          .shared_bytes = static_cast<int32_t>(shared)};
    emit(typed(kernel_over(kernel, cache), dtype), parameters, blocks(queries) * parts,
         {.threads = threads, .shared_bytes = shared});
  };
  if (chunks == 0) return true;
  if (!is_16) {
    emit_rows("attend_rows", kRowsThreads, kRowsQueries, 1, attend_rows_bytes(cache.head_dim));
    return true;
  }
  // Where parts give more blocks, a multiprocessor has half of a pair's work at once, and more of it in all.
  const bool is_pair =
      values_in_keys(attend) && attend.pinned_q == nullptr && 2 * blocks(kRowsQueries) >= bases_.multiprocessors;
  if (is_pair) {
    emit_rows("attend_pairs", kRows16Threads, kRowsQueries, 1, attend_pairs_bytes(cache.head_dim));
    return true;
  }
  const int64_t parts = (attend.value_columns + kRowsHeadDim - 1) / kRowsHeadDim;
  const auto bytes = [&](int threads) { return attend_rows_16_bytes(threads, cache.head_dim, query_sets(attend)); };
  int threads = kRows16Threads;
  const bool is_too_wide =
      bytes(threads) > kMostTilesBytes || blocks(rows_16_queries(threads)) * parts < bases_.multiprocessors;
  if (is_too_wide) threads /= 2;
  emit_rows("attend_rows", threads, rows_16_queries(threads), parts, bytes(threads));
  return true;
}

/// Takes a few rows' tiles side by side; false: it cannot.
bool Lowering::attend_tiles(const Node& node, const AttendParameters& attend, const CacheLayout& cache) {
  const Tensor& y = result(node);
  const int64_t tiles = tiles_of_row(attend, cache);
  const int64_t places = y.rows * attend.heads * tiles;
  const int64_t of_unit = values_in_keys(attend) ? 1 : 2;
  const int64_t shared = size_of(y.dtype) == 2 ? attend_tiles_16_bytes(cache.head_dim, query_sets(attend), of_unit)
                                               : attend_tiles_bytes(cache.head_dim, of_unit);
  const int64_t value_bytes = places * attend.value_columns * 4;
  const int64_t most_bytes = values_in_keys(attend) ? kMostSplitBytesInKeys : kMostSplitBytes;
  if (y.rows > kMostSplitRows || value_bytes > most_bytes || shared > kMostSharedBytes) return false;
  std::vector<int32_t> heads(static_cast<size_t>(attend.heads)), first_heads;
  std::iota(heads.begin(), heads.end(), 0);
  const std::vector<int64_t>& head_map = node.integers("head_map");
  const auto cache_head = [&](int32_t head) { return head_map[static_cast<size_t>(head)]; };
  std::ranges::stable_sort(heads, {}, cache_head);
  for (size_t i = 0; i < heads.size(); ++i) {
    if (i == 0 || cache_head(heads[i]) != cache_head(heads[i - 1])) first_heads.push_back(static_cast<int32_t>(i));
  }
  const int64_t groups = std::ssize(first_heads);
  first_heads.push_back(attend.heads);
  int64_t widest = 0;  // query heads of a group
  for (size_t i = 1; i < first_heads.size(); ++i) {
    widest = std::max<int64_t>(widest, first_heads[i] - first_heads[i - 1]);
  }
  const bool folds_in_place = tiles <= kMostFoldedTiles && widest * attend.value_columns <= kMostFoldedColumns;
  const AttendTilesParameters parameters{.attend = attend,
                                         .of_rows = {.maxima = reinterpret_cast<float*>(scratch(places * 4)),
                                                     .sums = reinterpret_cast<float*>(scratch(places * 4)),
                                                     .values = reinterpret_cast<float*>(scratch(value_bytes)),
                                                     .tiles = static_cast<int32_t>(tiles)},
                                         .heads = table(std::span<const int32_t>(heads)),
                                         .first_heads = table(std::span<const int32_t>(first_heads)),
                                         .arrivals = folds_in_place ? reinterpret_cast<uint32_t*>(arrivals_) : nullptr,
                                         .groups = static_cast<int32_t>(groups),
                                         .shared_bytes = static_cast<int32_t>(shared)};
  const int64_t held = std::clamp<int64_t>(kMultiprocessorSharedBytes / (shared + 1024), 1, kBlocksOfMultiprocessor);
  emit(typed(kernel_over("attend_tiles", cache), y.dtype), parameters, walking_blocks(y.rows * groups * tiles, held),
       {.shared_bytes = shared});
  if (!folds_in_place) {
    emit(typed("attend_fold", y.dtype), parameters, y.rows * attend.heads * fold_parts(attend.value_columns));
  }
  return true;
}

}  // namespace lockstep::cuda
