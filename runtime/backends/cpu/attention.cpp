#include "runtime/backends/cpu/attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace lockstep::cpu {
namespace {

constexpr int64_t kBlockRows = 48;  // rows (token, head) of a block: their sums stay in the first-level cache

int64_t round_up(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

ProductFunction unpaired_product(const Kernels& kernels, DType dtype) {
  if (dtype == DType::kFloat32) return kernels.product_f32;
  return dtype == DType::kBFloat16 ? kernels.product_bf16 : kernels.product_f16;
}

}  // namespace

/// Consecutive rows of one slot that attend to one cache head, and the scratch for them. Row r of the scratch is token
/// `begin + r / readers`, reader `r % readers`.
struct AttentionTask::Run {
  int64_t begin = 0, end = 0;  // rows of the step
  int64_t slot = 0;
  int64_t head = 0;
  std::byte* q;    // [rows, padded head_dim], as `score` reads it
  float* scores;   // [kTileRows, kPanel]
  float* maximum;  // [rows]
  float* sum;      // [rows, kStrip]
  float* result;   // [rows, values.padded_dim()]
};

AttentionTask AttentionTask::make(const Kernels& kernels, const CacheLayout& keys, const CacheLayout& values,
                                  const std::vector<int64_t>& head_map, int64_t rows) {
  AttentionTask task;
  task.kernels = &kernels;
  task.keys = keys;
  task.values = values;
  task.score = keys.pairs ? kernels.product_pairs : unpaired_product(kernels, keys.dtype);
  task.weigh = unpaired_product(kernels, values.dtype);
  task.readers.resize(keys.heads);
  for (size_t head = 0; head < head_map.size(); ++head) task.readers[head_map[head]].push_back(static_cast<int>(head));
  size_t most = 1;
  for (const auto& readers : task.readers) most = std::max(most, readers.size());
  task.block_tokens = std::clamp<int64_t>(kBlockRows / static_cast<int64_t>(most), 1, std::max<int64_t>(rows, 1));
  return task;
}

int64_t AttentionTask::most_rows() const {
  size_t most = 1;
  for (const auto& heads : readers) most = std::max(most, heads.size());
  return block_tokens * static_cast<int64_t>(most);
}

int64_t AttentionTask::private_bytes() const {
  const int64_t row = keys.padded_dim() * 4 + 64 + (1 + kStrip + values.padded_dim()) * 4;
  return round_up(most_rows() * row + kTileRows * kPanel * 4, 64) + 512;
}

void AttentionTask::run(std::byte* private_scratch, Part part) const {
  const int64_t rows = q.used_rows();
  const int64_t blocks = (rows + block_tokens - 1) / block_tokens;
  // Dealt in turn, since later blocks read more.
  for (int64_t unit = part.worker; unit < blocks * keys.heads; unit += part.workers) {
    const int64_t block = unit / keys.heads;
    run_block(block * block_tokens, std::min(rows, (block + 1) * block_tokens), unit % keys.heads, private_scratch);
  }
}

void AttentionTask::run_block(int64_t begin, int64_t end, int64_t head, std::byte* scratch) const {
  if (readers[head].empty()) return;
  Run run{};
  const auto take = [&scratch](int64_t bytes) {
    std::byte* taken = scratch;
    scratch += round_up(bytes, 64);
    return taken;
  };
  run.head = head;
  run.scores = reinterpret_cast<float*>(take(kTileRows * kPanel * 4));
  run.result = reinterpret_cast<float*>(take(most_rows() * values.padded_dim() * 4));
  run.sum = reinterpret_cast<float*>(take(most_rows() * kStrip * 4));
  run.maximum = reinterpret_cast<float*>(take(most_rows() * 4));
  run.q = take(most_rows() * keys.padded_dim() * 4);
  for (run.begin = begin; run.begin < end; run.begin = run.end) {
    run.end = run.begin + 1;
    run.slot = slot[run.begin];
    while (run.end < end && slot[run.end] == run.slot) ++run.end;
    run_tokens(run);
  }
}

void AttentionTask::run_tokens(const Run& run) const {
  const auto heads = static_cast<int64_t>(readers[run.head].size());
  const int64_t rows = (run.end - run.begin) * heads;
  const int64_t q_row_bytes = keys.padded_dim() * (keys.pairs ? 2 : 4);
  const int64_t head_bytes = keys.head_dim * q.element_size();
  int64_t last_position = -1;
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t row = run.begin + r / heads;
    const int64_t column = readers[run.head][r % heads] * keys.head_dim;
    if (run.slot < 0) {
      std::memset(result.at(row, column), 0, head_bytes);
      continue;
    }
    last_position = std::max<int64_t>(last_position, position[row]);
    std::byte* dst = run.q + r * q_row_bytes;
    if (keys.pairs) {
      std::memset(dst, 0, q_row_bytes);
      std::memcpy(dst, q.at(row, column), head_bytes);
    } else {
      kernels->convert(q.const_row(row, column), {dst, DType::kFloat32}, keys.head_dim);
    }
    run.maximum[r] = -std::numeric_limits<float>::infinity();
  }
  if (run.slot < 0) return;
  std::memset(run.sum, 0, rows * kStrip * sizeof(float));
  std::memset(run.result, 0, rows * values.padded_dim() * sizeof(float));

  for (int64_t tile = 0; tile * kTileTokens <= last_position; ++tile) {
    const int64_t first = tile * kTileTokens;
    for (int64_t token = run.begin; token < run.end;) {
      // Tokens past this tile share its reading; one whose own position lies inside reads up to it, alone.
      int64_t next = token;
      while (next < run.end && position[next] + 1 >= first + kTileTokens) ++next;
      const bool is_inside = next == token;
      if (is_inside) ++next;
      const int64_t valid = is_inside ? position[token] + 1 - first : kTileTokens;
      if (valid > 0) run_tile(run, tile, (token - run.begin) * heads, (next - token) * heads, valid);
      token = next;
    }
  }
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t column = readers[run.head][r % heads] * keys.head_dim;
    kernels->finish_attention(run.result + r * values.padded_dim(), run.sum + r * kStrip,
                              result.row(run.begin + r / heads, column), values.head_dim);
  }
}

void AttentionTask::run_tile(const Run& run, int64_t tile, int64_t first_row, int64_t rows, int64_t valid) const {
  const int64_t q_row_bytes = keys.padded_dim() * (keys.pairs ? 2 : 4);
  const int64_t columns = values.padded_dim();
  const int64_t value_bytes = static_cast<int64_t>(size_of(values.dtype));
  Product scores;
  scores.weights = keys.tile(run.slot, tile, run.head);
  scores.weight_stride = kTileTokens * static_cast<int64_t>(size_of(keys.dtype)) * (keys.pairs ? 2 : 1);
  scores.x_stride = q_row_bytes;
  scores.steps = keys.padded_dim() / (keys.pairs ? 2 : 1);
  scores.sums = run.scores;
  scores.sums_stride = kPanel;
  scores.opens = true;
  scores.strips = kPanelStrips;
  Product sums;
  sums.weight_stride = columns * value_bytes;
  sums.x = reinterpret_cast<const std::byte*>(run.scores);
  sums.x_stride = kPanel * 4;
  sums.steps = valid;
  sums.sums_stride = columns;
  const std::byte* value_tile = values.tile(run.slot, tile, run.head);
  for (int64_t row = first_row; row < first_row + rows; row += kTileRows) {
    scores.rows = sums.rows = static_cast<int>(std::min<int64_t>(kTileRows, first_row + rows - row));
    scores.x = run.q + row * q_row_bytes;
    score(scores);
    kernels->softmax_tile({.scores = run.scores,
                           .rows = scores.rows,
                           .valid = static_cast<int>(valid),
                           .scale = scale,
                           .maximum = run.maximum + row,
                           .sum = run.sum + row * kStrip,
                           .result = run.result + row * columns,
                           .result_columns = columns});
    for (int64_t column = 0; column < columns; column += kPanel) {
      sums.weights = value_tile + column * value_bytes;
      sums.strips = static_cast<int>(std::min<int64_t>(columns - column, kPanel) / kStrip);
      sums.sums = run.result + row * columns + column;
      weigh(sums);
    }
  }
}

}  // namespace lockstep::cpu
