#include "runtime/backends/cpu/attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "runtime/backends/cpu/attention_run.h"

namespace lockstep::cpu {
namespace {

constexpr int64_t kBlockRows = 48;  // rows (token, head) per block: their sums stay in the first-level cache
/// Sums in the second-level cache, which is fast enough when several rows share a tile, or the copy of its values.
constexpr int64_t kPairedBlockRows = kMostAttendedRows;

int64_t round_up(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

ProductFunction unpaired_product(const Kernels& kernels, DType dtype) {
  if (dtype == DType::kFloat32 || has_row_scales(dtype)) return kernels.product_f32;
  return dtype == DType::kBFloat16 ? kernels.product_bf16 : kernels.product_f16;
}

/// The part of `keys` in a tile, relative to the tile's first position; 0:0 if empty.
Range part_in_tile(Range keys, int64_t tile) {
  const int64_t first = tile * kTileTokens;
  const Range part{std::max<int64_t>(keys.begin - first, 0), std::min(keys.end - first, kTileTokens)};
  return part.begin < part.end ? part : Range{};
}

}  // namespace

Range AttentionRule::keys_of(int64_t position) const {
  const int64_t near = position >= window ? position - window + 1 : 0;
  const int64_t first = chunked ? position / window * window : near;
  return {std::max(first, pinned), position + 1};
}

Range AttentionRule::pinned_keys_of(int64_t position) const { return {0, std::min(pinned, position + 1)}; }

AttentionTask AttentionTask::make(const Kernels& kernels, const CacheLayout& keys, const CacheLayout& values,
                                  const std::vector<int64_t>& head_map) {
  AttentionTask task;
  task.kernels = &kernels;
  task.integers = &coded_kernels_for(kernels.isa, DotKind::kBytes);
  task.keys = keys;
  task.values = values;
  task.score = keys.pairs ? kernels.product_pairs : unpaired_product(kernels, keys.dtype);
  task.weigh = unpaired_product(kernels, values.dtype);
  task.readers.resize(keys.heads);
  for (size_t head = 0; head < head_map.size(); ++head) task.readers[head_map[head]].push_back(static_cast<int>(head));
  return task;
}

AttentionTask AttentionTask::make_latent(const Kernels& kernels, const CacheLayout& keys, int64_t value_columns,
                                         const std::vector<int64_t>& head_map) {
  CacheLayout values = keys;
  values.role = CacheRole::kValues;
  values.head_dim = value_columns;
  AttentionTask task = make(kernels, keys, values, head_map);
  task.values_in_keys = true;
  return task;
}

void AttentionTask::block_for_prefill(int64_t rows) {
  const bool shares_tiles = is_paired() || values_in_keys || keys.is_coded();
  const int64_t most = shares_tiles ? kPairedBlockRows : kBlockRows;
  block_tokens = std::clamp<int64_t>(most / static_cast<int64_t>(most_readers()), 1, std::max<int64_t>(rows, 1));
}

void AttentionTask::block_for_decode(int64_t rows_per_slot) { block_tokens = std::max<int64_t>(rows_per_slot, 1); }

void AttentionTask::share_readers(int64_t rows, int workers) {
  const int64_t units = (rows + block_tokens - 1) / block_tokens * keys.heads;
  reader_shares = std::clamp<int64_t>(workers / std::max<int64_t>(units, 1), 1, static_cast<int64_t>(most_readers()));
}

int64_t AttentionTask::query_head(const Run& run, int64_t r) const {
  return readers[run.head][run.first_reader + r % run.heads];
}

size_t AttentionTask::most_readers() const {
  size_t most = 1;
  for (const auto& heads : readers) most = std::max(most, heads.size());
  return most;
}

int64_t AttentionTask::lay_out(std::byte* scratch, Run& run) const {
  const int64_t rows = block_tokens * static_cast<int64_t>(most_readers());
  int64_t bytes = 0;
  const auto take = [&](auto*& pointer, int64_t count) {
    using Element = std::remove_reference_t<decltype(*pointer)>;
    if (scratch != nullptr) pointer = reinterpret_cast<Element*>(scratch + bytes);
    bytes += round_up(count * static_cast<int64_t>(sizeof(Element)), 64);
  };
  if (!has_origins()) take(run.scores, kTileRows * kPanel);
  take(run.result, rows * values.padded_dim());
  take(run.sum, rows * kStrip);
  take(run.maximum, rows);
  take(run.slopes, rows);
  take(run.seen, rows);
  take(run.q, rows * q_row_bytes());
  if (rule.pinned > 0) take(run.pinned_q, rows * q_row_bytes());
  const int64_t decoded = decodes() ? kTileTokens * static_cast<int64_t>(sizeof(float)) : 0;
  if (decodes()) take(run.keys, keys.padded_dim() * decoded);
  if (decodes() || values_in_keys) take(run.values, decodes() ? values.padded_dim() * decoded : values.tile_bytes());
  return bytes;
}

int64_t AttentionTask::private_bytes() const {
  Run run;
  return lay_out(nullptr, run);
}

void AttentionTask::run(std::byte* private_scratch, Part part) const {
  Run run;
  lay_out(private_scratch, run);
  const int64_t rows = q.used_rows();
  const int64_t blocks = (rows + block_tokens - 1) / block_tokens;
  // Units are assigned in alternating order, because later blocks read more.
  const int64_t units_of_block = keys.heads * reader_shares;
  const int64_t units = blocks * units_of_block;
  for (int64_t round = 0; round * part.workers < units; ++round) {
    const int64_t unit = round * part.workers + (round % 2 == 0 ? part.worker : part.workers - 1 - part.worker);
    if (unit >= units) continue;
    run.head = unit % units_of_block / reader_shares;
    const Share own = share_of(std::ssize(readers[run.head]),
                               {static_cast<int>(unit % reader_shares), static_cast<int>(reader_shares)});
    run.first_reader = own.begin;
    run.heads = own.end - own.begin;
    run.begin = unit / units_of_block * block_tokens;
    run.end = std::min(rows, run.begin + block_tokens);
    for (int64_t row = run.begin; prepare && row < run.end; ++row) prepare(row, run.head);
    if (run.heads > 0) run_block(run);
  }
}

void AttentionTask::run_block(Run& run) const {
  const int64_t end = run.end;
  for (; run.begin < end; run.begin = run.end) {
    run.end = run.begin + 1;
    run.slot = slot[run.begin];
    while (run.end < end && slot[run.end] == run.slot) ++run.end;
    run_tokens(run);
  }
}

void AttentionTask::run_tokens(const Run& run) const {
  const auto result_column = [&](int64_t r) { return query_head(run, r) * values.head_dim; };
  if (run.slot < 0) {
    for (int64_t r = 0; r < run.rows(); ++r) {
      std::memset(result.at(run.token(r), result_column(r)), 0, values.head_dim * result.element_size());
    }
    return;
  }
  for (int64_t r = 0; r < run.rows(); ++r) open_row(run, r);
  if (rule.pinned > 0) run_pass(run, run.pinned_q, &AttentionRule::pinned_keys_of);
  run_pass(run, run.q, &AttentionRule::keys_of);
  for (int64_t r = 0; r < run.rows(); ++r) {
    kernels->finish_attention(run.result + r * values.padded_dim(), run.sum + r * kStrip,
                              result.row(run.token(r), result_column(r)), values.head_dim);
  }
}

void AttentionTask::open_row(const Run& run, int64_t r) const {
  const int64_t head = query_head(run, r);
  load_query(q, run.token(r), head * keys.head_dim, run.q + r * q_row_bytes());
  if (rule.pinned > 0) load_query(pinned_q, run.token(r), head * keys.head_dim, run.pinned_q + r * q_row_bytes());
  const auto per_head = [&](const Tensor& from, float* dst) {
    kernels->convert(from.const_row(0, head), {reinterpret_cast<std::byte*>(dst), DType::kFloat32}, 1);
  };
  if (slopes.data != nullptr) per_head(slopes, run.slopes + r);
  std::memset(run.result + r * values.padded_dim(), 0, values.padded_dim() * sizeof(float));
  std::memset(run.sum + r * kStrip, 0, kStrip * sizeof(float));
  constexpr float kNone = std::numeric_limits<float>::max();
  run.maximum[r] = has_origins() ? -kNone : -std::numeric_limits<float>::infinity();
  if (sinks.data == nullptr) return;
  per_head(sinks, run.maximum + r);
  run.sum[r * kStrip] = 1;  // the sink's own weight, e^(sink − maximum)
  if (!has_origins()) return;
  const float exponent = run.maximum[r] * kLog2E;
  run.maximum[r] = std::max(std::ceil(exponent), -kNone);
  run.sum[r * kStrip] = std::exp2(exponent - run.maximum[r]);
}

void AttentionTask::load_query(const Tensor& from, int64_t row, int64_t column, std::byte* dst) const {
  if (multiplies_codes()) return split_query(from.const_row(row, column), dst);
  if (!keys.pairs) return kernels->convert(from.const_row(row, column), {dst, DType::kFloat32}, keys.head_dim);
  std::memset(dst, 0, q_row_bytes());
  std::memcpy(dst, from.at(row, column), keys.head_dim * from.element_size());
}

void AttentionTask::run_pass(const Run& run, const std::byte* queries,
                             Range (AttentionRule::*visible)(int64_t) const) const {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  Range all{kMost, 0};     // from the first visible key of any row to the last
  Range common{0, kMost};  // keys visible to every row
  for (int64_t r = 0; r < run.rows(); ++r) {
    const Range seen = run.seen[r] = (rule.*visible)(position[run.token(r)]);
    if (seen.size() > 0) all = {std::min(all.begin, seen.begin), std::max(all.end, seen.end)};
    common = {std::max(common.begin, seen.begin), std::min(common.end, seen.end)};
  }
  for (int64_t tile = all.begin / kTileTokens; tile * kTileTokens < all.end; ++tile) {
    copy_tile(run, tile);
    if (has_origins()) {
      run_joint_tile(run, queries, tile, common);
    } else {
      run_tile(run, queries, tile);
    }
  }
}

const std::byte* AttentionTask::keys_of(const Run& run, int64_t tile) const {
  return run.keys != nullptr ? run.keys : keys.tile(run.slot, tile, run.head);
}

const std::byte* AttentionTask::values_of(const Run& run, int64_t tile) const {
  return run.values != nullptr ? run.values : values.tile(run.slot, tile, run.head);
}

void AttentionTask::copy_tile(const Run& run, int64_t tile) const {
  if (decodes()) return decode_tile(run, tile);
  if (values_in_keys) keys.copy_values(*kernels, run.slot, tile, run.head, values, run.values);
}

void AttentionTask::run_joint_tile(const Run& run, const std::byte* queries, int64_t number, Range common) const {
  const int64_t columns = values.padded_dim();
  const bool has_next = (number + 1) * kTileTokens < common.end;
  float distance[kMostAttendedRows];
  int begin[kMostAttendedRows], end[kMostAttendedRows];
  AttendedTile tile{.q = queries,
                    .q_stride = q_row_bytes(),
                    .keys = keys.tile(run.slot, number, run.head),
                    .values = values_of(run, number),
                    .next_keys = has_next ? keys.tile(run.slot, number + 1, run.head) : nullptr,
                    .next_values = has_next ? values_of(run, number + 1) : nullptr,
                    .steps = keys.padded_dim() / (is_paired() ? 2 : 4),
                    .columns = columns,
                    .rows = 0,
                    .is_whole = part_in_tile(common, number) == Range{0, kTileTokens},
                    .begin = begin,
                    .end = end,
                    .scale = rule.scale,
                    .soft_cap = rule.soft_cap,
                    .slope = nullptr,
                    .distance = distance,
                    .origin = nullptr,
                    .sum = nullptr,
                    .result = nullptr};
  const auto attend = is_paired() ? kernels->attend_pairs : integers->attention.attend;
  for (int64_t first = 0; first < run.rows(); first += rows_of_kernel()) {
    tile.rows = static_cast<int>(std::min<int64_t>(rows_of_kernel(), run.rows() - first));
    for (int i = 0; !tile.is_whole && i < tile.rows; ++i) {
      const Range seen = part_in_tile(run.seen[first + i], number);
      begin[i] = static_cast<int>(seen.begin);
      end[i] = static_cast<int>(seen.end);
    }
    for (int i = 0; slopes.data != nullptr && i < tile.rows; ++i) {
      distance[i] = static_cast<float>(number * kTileTokens - position[run.token(first + i)]);
    }
    tile.q = queries + first * q_row_bytes();
    tile.slope = slopes.data != nullptr ? run.slopes + first : nullptr;
    tile.origin = run.maximum + first;
    tile.sum = run.sum + first * kStrip;
    tile.result = run.result + first * columns;
    attend(tile);
    tile.next_keys = tile.next_values = nullptr;
  }
}

void AttentionTask::run_tile(const Run& run, const std::byte* queries, int64_t tile) const {
  Product product;
  product.weights = keys_of(run, tile);
  product.weight_stride = kTileTokens * static_cast<int64_t>(size_of(elements_of(keys))) * (keys.pairs ? 2 : 1);
  product.x_stride = q_row_bytes();
  product.steps = decodes() ? keys.head_dim : keys.padded_dim() / (keys.pairs ? 2 : 1);
  product.sums = run.scores;
  product.sums_stride = kPanel;
  product.opens = true;
  product.strips = kPanelStrips;
  for (int64_t first = 0; first < run.rows(); first += kTileRows) {
    const int64_t end = std::min(first + kTileRows, run.rows());
    bool is_scored = false;
    for (int64_t row = first; row < end;) {
      // Rows with the same visible keys are summed together.
      const Range seen = part_in_tile(run.seen[row], tile);
      int64_t next = row + 1;
      while (next < end && part_in_tile(run.seen[next], tile) == seen) ++next;
      if (seen.size() > 0 && !is_scored) {
        product.rows = static_cast<int>(end - first);
        product.x = queries + first * q_row_bytes();
        score(product);
        is_scored = true;
      }
      if (seen.size() > 0) weigh_rows(run, tile, run.scores + (row - first) * kPanel, {row, next}, seen);
      row = next;
    }
  }
}

void AttentionTask::weigh_rows(const Run& run, int64_t tile, float* scores, Range rows, Range seen) const {
  const int64_t columns = values.padded_dim();
  const auto value_bytes = static_cast<int64_t>(size_of(elements_of(values)));
  const int count = static_cast<int>(rows.size());
  float distance[kTileRows];
  for (int i = 0; slopes.data != nullptr && i < count; ++i) {
    distance[i] = static_cast<float>(tile * kTileTokens - position[run.token(rows.begin + i)]);
  }
  kernels->softmax_tile({.scores = scores,
                         .rows = count,
                         .begin = static_cast<int>(seen.begin),
                         .end = static_cast<int>(seen.end),
                         .scale = rule.scale,
                         .soft_cap = rule.soft_cap,
                         .slope = slopes.data != nullptr ? run.slopes + rows.begin : nullptr,
                         .distance = distance,
                         .maximum = run.maximum + rows.begin,
                         .sum = run.sum + rows.begin * kStrip,
                         .result = run.result + rows.begin * columns,
                         .result_columns = columns});
  const std::byte* first_value = values_of(run, tile) + seen.begin * columns * value_bytes;
  Product product;
  product.weight_stride = columns * value_bytes;
  product.x = reinterpret_cast<const std::byte*>(scores + seen.begin);
  product.x_stride = kPanel * static_cast<int64_t>(sizeof(float));
  product.steps = seen.size();
  product.sums_stride = columns;
  product.rows = count;
  for (int64_t column = 0; column < columns; column += kPanel) {
    product.weights = first_value + column * value_bytes;
    product.strips = static_cast<int>(std::min<int64_t>(columns - column, kPanel) / kStrip);
    product.sums = run.result + rows.begin * columns + column;
    weigh(product);
  }
}

}  // namespace lockstep::cpu
