#include "runtime/backends/cpu/recurrence.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "runtime/backends/cpu/compiler.h"

namespace lockstep::cpu {
namespace {

int64_t to_strips(int64_t columns) { return (columns + kStrip - 1) / kStrip * kStrip; }

/// A matrix of float32; rows are `stride` elements apart.
struct Floats {
  float* data = nullptr;
  int64_t stride = 0;
  float* row(int64_t index) const { return data + index * stride; }
};

/// sums[row] += Σ over steps, in order, of x[row][step] · w[step]; `columns` of each. The rows of w and the sums have
/// room for whole strips.
void add_strips(const Kernels& kernels, Floats x, int64_t rows, int64_t steps, Floats w, int64_t columns, Floats sums) {
  constexpr auto kSize = static_cast<int64_t>(sizeof(float));
  if (steps == 0) return;
  for (int64_t column = 0; column < columns; column += kPanel) {
    const int64_t strips = (std::min<int64_t>(kPanel, columns - column) + kStrip - 1) / kStrip;
    for (int64_t row = 0; row < rows; row += kTileRows) {
      Product product;
      product.weights = reinterpret_cast<const std::byte*>(w.data + column);
      product.weight_stride = w.stride * kSize;
      product.x = reinterpret_cast<const std::byte*>(x.row(row));
      product.x_stride = x.stride * kSize;
      product.steps = steps;
      product.sums = sums.row(row) + column;
      product.sums_stride = sums.stride;
      product.rows = static_cast<int>(std::min<int64_t>(kTileRows, rows - row));
      product.strips = static_cast<int>(strips);
      kernels.product_f32(product);
    }
  }
}

/// The same, where the rows of w may have less room. The last strip would then reach into memory that another worker
/// writes: it is taken from `tail`, [steps, kStrip], where its columns are copied.
void multiply_add(const Kernels& kernels, Floats x, int64_t rows, int64_t steps, Floats w, int64_t columns, Floats sums,
                  Floats tail) {
  const int64_t whole = to_strips(columns) <= w.stride ? columns : columns - columns % kStrip;
  add_strips(kernels, x, rows, steps, w, whole, sums);
  if (whole == columns) return;
  for (int64_t step = 0; step < steps; ++step) std::copy_n(w.row(step) + whole, columns - whole, tail.row(step));
  add_strips(kernels, x, rows, steps, tail, columns - whole, {sums.data + whole, sums.stride});
}

ConstRow const_floats(const float* row) { return {reinterpret_cast<const std::byte*>(row), DType::kFloat32}; }
Row floats(float* row) { return {reinterpret_cast<std::byte*>(row), DType::kFloat32}; }

/// e^sum as in Kernels::decay.
float decay_of(float sum) { return std::max(std::exp(sum) - kLeastDecay, 0.0f); }

std::span<const int32_t> used(const int32_t* values, const Tensor& rows) {
  return {values, static_cast<size_t>(rows.used_rows())};
}

/// Zeros in the rows that no slot has.
void clear_padding(const Tensor& result, const int32_t* slot, Part part) {
  const Share share = share_of(result.used_rows(), part);
  for (int64_t row = share.begin; row < share.end; ++row) {
    if (slot[row] < 0) std::fill_n(result.at(row), result.columns * result.element_size(), std::byte{0});
  }
}

float element(const Tensor& tensor, int64_t row, int64_t column) {
  float value = 0.0f;
  convert_elements(tensor.at(row, column), tensor.dtype, reinterpret_cast<std::byte*>(&value), DType::kFloat32, 1);
  return value;
}

}  // namespace

void ConvolutionTask::run(Part part) const {
  clear_padding(result, slot, part);
  const Share share = share_of(weight.packing.panels(), part);
  device::for_each_run(used(slot, result), used(position, result), [&](const device::RowRun& run) {
    for (int64_t panel = share.begin; panel < share.end; ++panel) run_panel(panel, run);
  });
}

void ConvolutionTask::run_panel(int64_t panel, const device::RowRun& run) const {
  const Packing& packing = weight.packing;
  const Range channels = packing.rows_of_panel(panel);
  const int64_t taps = packing.k, size = x.element_size();
  std::byte* const memory = kept + run.slot * kept_rows * x.columns * size + channels.begin * size;
  const auto kept_at = [&](int64_t at) { return memory + at % kept_rows * x.columns * size; };
  std::array<const std::byte*, graph::kMostTaps> rows{};
  ConvolvedRow row{.weights = weight.data + packing.panel_offset(panel),
                   .weight_stride = packing.step_stride(panel),
                   .rows = rows.data(),
                   .taps = static_cast<int>(taps),
                   .channels = channels.size(),
                   .activates = activates,
                   .activation = activation,
                   .dtype = x.dtype,
                   .dst = nullptr};
  for (int64_t i = 0; i < run.count; ++i) {
    for (int64_t tap = 0; tap < taps; ++tap) {
      const int64_t back = taps - 1 - tap, from = i - back;
      const bool is_kept = from < 0;
      const std::byte* const earlier = is_kept
                                           ? kept_at(run.position + from + (run.position + from < 0 ? kept_rows : 0))
                                           : x.at(run.first + from, channels.begin);
      rows[static_cast<size_t>(tap)] = run.position + from < 0 ? nullptr : earlier;
    }
    row.dst = result.at(run.first + i, channels.begin);
    kernels->convolve(row);
    std::copy_n(x.at(run.first + i, channels.begin), channels.size() * size, kept_at(run.position + i));
  }
}

/// Rows of one slot that lie in one block.
struct DeltaRuleTask::Rows {
  int64_t slot;
  int64_t first;  // of the step
  int64_t count;
  int64_t begin;      // of the first row in the block
  int64_t half;       // of the states, that the block has
  bool has_border;    // the block has a state before its first position
  bool has_previous;  // so has the block before it
};

/// A worker's scratch: rows for keys (even) and queries (odd) of a block.
struct DeltaRuleTask::Scratch {
  Floats rows;    // [2 · block, key_dim]
  Floats dots;    // [2 · block, block]: with the block's keys
  Floats shares;  // [max(2 · block, key_dim), block]: dots or keys, decayed
  Floats values;  // [2 · block, value_dim]: sums of changes (even) and outputs (odd); or rows of a border
  Floats tail;    // [max(block, key_dim), kStrip]: of multiply_add
  float* row;     // [the largest of the three], packed elements in float32

  static int64_t carve(const DeltaRuleTask& task, float* memory, Scratch* scratch) {
    const int64_t pairs = 2 * task.block, deep = std::max(pairs, task.key_dim);
    int64_t at = 0;
    const auto take = [&](int64_t rows, int64_t columns) {
      const Floats floats{memory + at, to_strips(columns)};
      at += rows * floats.stride;
      return floats;
    };
    Scratch carved{};
    carved.rows = take(pairs, task.key_dim);
    carved.dots = take(pairs, task.block);
    carved.shares = take(deep, task.block);
    carved.values = take(deep, task.value_dim);
    carved.tail = take(std::max(task.block, task.key_dim), kStrip);
    carved.row = take(1, std::max({task.key_dim, task.value_dim, task.block})).data;
    if (scratch != nullptr) *scratch = carved;
    return at;
  }
};

int64_t DeltaRuleTask::private_bytes() const {
  return Scratch::carve(*this, nullptr, nullptr) * static_cast<int64_t>(sizeof(float));
}

void DeltaRuleTask::run(std::byte* memory, Part part) const {
  clear_padding(result, slot, part);
  Scratch scratch{};
  Scratch::carve(*this, reinterpret_cast<float*>(memory), &scratch);
  int64_t runs = 0;
  device::for_each_run(used(slot, result), used(position, result), [&](const device::RowRun&) { ++runs; });
  const Share share = share_of(runs * key_heads(), part);
  int64_t unit = 0;
  device::for_each_run(used(slot, result), used(position, result), [&](const device::RowRun& run) {
    for (int64_t head = 0; head < key_heads(); ++head, ++unit) {
      if (unit < share.begin || unit >= share.end) continue;
      for (int64_t done = 0; done < run.count;) {
        const int64_t at = run.position + done, begin = at % block, number = at / block;
        const int64_t count = std::min(block - begin, run.count - done);
        run_block(scratch, {run.slot, run.first + done, count, begin, number % 2, number > 0, number > 1}, head);
        done += count;
      }
    }
  });
}

void DeltaRuleTask::run_block(const Scratch& scratch, const Rows& rows, int64_t key_head) const {
  const auto keys_of = [&](int64_t half) {
    return keys + ((rows.slot * 2 + half) * key_heads() + key_head) * key_dim * block;
  };
  float* const keys_now = keys_of(rows.half);
  const Range heads{first_value_head[static_cast<size_t>(key_head)],
                    first_value_head[static_cast<size_t>(key_head) + 1]};
  if (rows.begin == 0 && rows.has_border) {
    for (int64_t head = heads.begin; head < heads.end; ++head) {
      cross_border(scratch, rows, head, keys_of(1 - rows.half));
    }
  }
  normalise_keys(scratch, rows, key_head, keys_now);
  const int64_t seen = rows.begin + rows.count;
  std::fill_n(scratch.dots.data, 2 * rows.count * scratch.dots.stride, 0.0f);
  multiply_add(*kernels, scratch.rows, 2 * rows.count, key_dim, {keys_now, block}, seen, scratch.dots, scratch.tail);
  for (int64_t head = heads.begin; head < heads.end; ++head) run_head(scratch, rows, head);
}

void DeltaRuleTask::normalise_keys(const Scratch& scratch, const Rows& rows, int64_t key_head, float* keys_now) const {
  const float scale = 1.0f / std::sqrt(static_cast<float>(key_dim));
  for (int64_t i = 0; i < rows.count; ++i) {
    float* const key = scratch.rows.row(2 * i);
    const auto take = [&](int64_t column, float* dst, float factor) {
      kernels->convert(x.const_row(rows.first + i, column * key_dim), floats(scratch.row), key_dim);
      kernels->normalise(scratch.row, dst, key_dim, epsilon, factor);
    };
    take(key_head, scratch.rows.row(2 * i + 1), scale);
    take(key_heads() + key_head, key, 1.0f);
    for (int64_t d = 0; d < key_dim; ++d) keys_now[d * block + rows.begin + i] = key[d];
  }
}

void DeltaRuleTask::sum_decays(const Rows& rows, int64_t head, float* decays_now) const {
  const float rate = std::exp(element(a_log, 0, head)), bias = element(dt_bias, 0, head);
  float sum = rows.begin > 0 ? decays_now[rows.begin - 1] : 0.0f;
  for (int64_t i = 0; i < rows.count; ++i) {
    const float a = element(gates, rows.first + i, value_heads() + head) + bias;
    sum -= rate * (a > 20.0f ? a : std::log1p(std::exp(a)));  // above 20, ln(1 + e^a) is a
    decays_now[rows.begin + i] = sum;
  }
}

void DeltaRuleTask::cross_border(const Scratch& scratch, const Rows& rows, int64_t head,
                                 const float* keys_before) const {
  const auto of_half = [&](int64_t half) { return (rows.slot * 2 + half) * value_heads() + head; };
  const int64_t before = of_half(1 - rows.half);
  const float* const decay = decays + before * block;
  const float last = decay[block - 1], whole = decay_of(last);
  for (int64_t d = 0; d < key_dim; ++d) {
    kernels->decay(keys_before + d * block, decay, last, scratch.shares.row(d), block);
    float* const sums = scratch.values.row(d);
    std::fill_n(sums, scratch.values.stride, 0.0f);
    if (!rows.has_previous) continue;
    kernels->scale(const_floats(borders + (before * key_dim + d) * value_dim), floats(sums), value_dim, whole);
  }
  multiply_add(*kernels, scratch.shares, key_dim, block, {changes + before * block * value_dim, value_dim}, value_dim,
               scratch.values, scratch.tail);
  float* const border = borders + of_half(rows.half) * key_dim * value_dim;
  for (int64_t d = 0; d < key_dim; ++d) std::copy_n(scratch.values.row(d), value_dim, border + d * value_dim);
}

void DeltaRuleTask::run_head(const Scratch& scratch, const Rows& rows, int64_t head) const {
  const int64_t state = (rows.slot * 2 + rows.half) * value_heads() + head;
  float* const decay = decays + state * block;
  const Floats changed{changes + state * block * value_dim, value_dim};
  const Floats& values = scratch.values;
  sum_decays(rows, head, decay);
  std::fill_n(values.data, 2 * rows.count * values.stride, 0.0f);
  if (rows.has_border) {
    multiply_add(*kernels, scratch.rows, 2 * rows.count, key_dim, {borders + state * key_dim * value_dim, value_dim},
                 value_dim, values, scratch.tail);
  }
  for (int64_t i = 0; i < 2 * rows.count; ++i) {
    const int64_t at = rows.begin + i / 2;
    kernels->scale(const_floats(values.row(i)), floats(values.row(i)), value_dim, decay_of(decay[at]));
    kernels->decay(scratch.dots.row(i), decay, decay[at], scratch.shares.row(i), at + 1);
  }
  const Floats of_changes{values.data, 2 * values.stride}, of_outputs{values.row(1), 2 * values.stride};
  const Floats key_shares{scratch.shares.data, 2 * scratch.shares.stride},
      query_shares{scratch.shares.row(1), 2 * scratch.shares.stride};
  // A tile of rows shares the changes before its first row; the rest is row by row.
  const auto add_changes = [&](Floats shares, Floats sums, int64_t row, int64_t rows_of_tile, Range steps) {
    multiply_add(*kernels, {shares.row(row) + steps.begin, shares.stride}, rows_of_tile, steps.size(),
                 {changed.row(steps.begin), changed.stride}, value_dim, {sums.row(row), sums.stride}, scratch.tail);
  };
  for (int64_t tile = 0; tile < rows.count; tile += kTileRows) {
    const int64_t end = std::min(tile + kTileRows, rows.count), known = rows.begin + tile;
    add_changes(key_shares, of_changes, tile, end - tile, {0, known});
    for (int64_t i = tile; i < end; ++i) {
      const int64_t at = rows.begin + i;
      add_changes(key_shares, of_changes, i, 1, {known, at});
      const float beta = 1.0f / (1.0f + std::exp(-element(gates, rows.first + i, head)));
      const int64_t column = 2 * key_heads() * key_dim + head * value_dim;
      kernels->convert(x.const_row(rows.first + i, column), floats(scratch.row), value_dim);
      const float* const sum = of_changes.row(i);
      float* const change = changed.row(at);
      for (int64_t v = 0; v < value_dim; ++v) change[v] = beta * (scratch.row[v] - sum[v]);
    }
    add_changes(query_shares, of_outputs, tile, end - tile, {0, known + 1});
    for (int64_t i = tile; i < end; ++i) {
      add_changes(query_shares, of_outputs, i, 1, {known + 1, rows.begin + i + 1});
      kernels->convert(const_floats(of_outputs.row(i)), result.row(rows.first + i, head * value_dim), value_dim);
    }
  }
}

Result<void> Compiler::lower_causal_conv(const Node& node) {
  const std::optional<Packing> packing = packing_of(kernels_, graph_, node, 1);
  const std::optional<PackedWeight> weight = store_.packed(graph_.value(node.operands[1]).name, *packing);
  if (!weight) return not_a_weight(node, 1);
  const Shape& kept = graph_.value(node.operands[2]).type.shape;
  check_rows(node, node.operands[3], node.operands[4],
             {.slots = kept[0], .positions = std::numeric_limits<int32_t>::max(), .in_runs = true});
  ConvolutionTask task{.kernels = &kernels_,
                       .weight = *weight,
                       .x = operand(node, 0),
                       .result = result(node),
                       .kept = operand(node, 2).data,
                       .kept_rows = kept[1],
                       .slot = operand(node, 3).as<int32_t>(),
                       .position = operand(node, 4).as<int32_t>(),
                       .activates = node.has("activation")};
  if (task.activates) task.activation = activation_of(node);
  add_shared([task](Part part) { task.run(part); });
  return ok();
}

Result<void> Compiler::lower_gated_delta_rule(const Node& node) {
  const Shape& keys = graph_.value(node.operands[4]).type.shape;
  check_rows(node, node.operands[8], node.operands[9],
             {.slots = keys[0], .positions = std::numeric_limits<int32_t>::max(), .in_runs = true});
  DeltaRuleTask task{.kernels = &kernels_,
                     .key_dim = keys[2],
                     .value_dim = graph_.value(node.operands[7]).type.shape[3],
                     .block = keys[3],
                     .epsilon = static_cast<float>(node.number("epsilon")),
                     .x = operand(node, 0),
                     .gates = operand(node, 1),
                     .a_log = operand(node, 2),
                     .dt_bias = operand(node, 3),
                     .result = result(node),
                     .keys = operand(node, 4).as<float>(),
                     .changes = operand(node, 5).as<float>(),
                     .decays = operand(node, 6).as<float>(),
                     .borders = operand(node, 7).as<float>(),
                     .slot = operand(node, 8).as<int32_t>(),
                     .position = operand(node, 9).as<int32_t>()};
  const std::vector<int64_t>& map = node.integers("head_map");
  for (int64_t head = 0; head <= keys[1] / 2; ++head) {
    task.first_value_head.push_back(std::ranges::lower_bound(map, head) - map.begin());
  }
  Scratch* const scratch = &program_.scratch;
  scratch->need_private(task.private_bytes());
  add_shared([task = std::move(task), scratch](Part part) { task.run(scratch->private_of(part), part); });
  return ok();
}

}  // namespace lockstep::cpu
