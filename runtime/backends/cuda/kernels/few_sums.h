// The sums of product_few: what a block works with, which steps a warp takes, and its loads.
//
// Warp w of n has parts w, w + n, w + 2n … of a tile. It lists its steps once, so that a step costs few instructions.
//
// Reading the weights is all that takes time, so a lane always has 8 loads under way: the first ones before the wait
// for the launch ahead, each next one as soon as one is multiplied, the next tile's while this tile's sums are folded.
// The sums are those of sum_tile.h.
#pragma once

#include "runtime/backends/cuda/kernels/norms.h"
#include "runtime/backends/cuda/kernels/sum_tile.h"

namespace lockstep::cuda {

constexpr int kFewLoads = 8;
constexpr int kBroughtSteps = 16;  // behind the first loads, while the launch ahead runs

/// Ahead of the sums [parts][kTileElements], the warps' steps and the rows [rows][stride].
struct FewShared {
  NormShared norms[kTileRows];
  float stack[kMostLevels][1][kTileElements];
  SumPart parts[kMostFewParts];
};

/// What a block works with.
template <typename Rows>
struct FewBlock {
  using Element = typename Rows::Element;
  const ProductFewParameters& p;
  FewShared& shared;
  float* sums;
  Element* x;
  int row_stride;
  uint32_t* steps;  // of the warp (StepOf)
  int step_count;
  int rows;
  int part_count;  // of a sum
  int all_parts;   // of gates and ups
};

template <typename Rows>
LOCKSTEP_DEVICE FewBlock<Rows> block_of(const ProductFewParameters& p) {
  using Element = typename Rows::Element;
  const int all_parts = p.up_weights == nullptr ? p.product.part_count : 2 * p.product.part_count;
  auto& shared = shared_memory_of<FewShared>(p.shared_bytes);
  auto* sums = reinterpret_cast<float*>(&shared + 1);
  auto* steps = reinterpret_cast<uint32_t*>(sums + all_parts * kTileElements);
  return {p,
          shared,
          sums,
          reinterpret_cast<Element*>(steps + warp_count() * p.warp_steps),
          p.row_stride,
          steps + thread_index() / kWarpLanes * p.warp_steps,
          0,
          0,
          p.product.part_count,
          all_parts};
}

/// A part of gates, or of the only sums, or of ups, which follow those.
struct FewPart {
  const SumPart& sum;
  bool is_up;
};

template <typename Rows>
LOCKSTEP_DEVICE FewPart part_at(const FewBlock<Rows>& block, int part) {
  const bool is_up = part >= block.part_count;
  return {block.shared.parts[is_up ? part - block.part_count : part], is_up};
}

/// A step of a warp as a word: its number in the tile, whether its weights are those of ups, and 1 + the part that it
/// ends, or 0.
struct StepOf {
  static constexpr int kUpBit = 20, kPartBit = 21;
  uint32_t word;

  LOCKSTEP_DEVICE int step() const { return static_cast<int>(word & ((1u << kUpBit) - 1)); }
  LOCKSTEP_DEVICE bool is_up() const { return (word >> kUpBit & 1) != 0; }
  /// −1: none.
  LOCKSTEP_DEVICE int ended_part() const { return static_cast<int>(word >> kPartBit) - 1; }
};

/// Lists the steps of the warp's parts. Parts without steps get their zeros once: no later tile writes them.
template <typename Rows>
LOCKSTEP_DEVICE void list_steps(FewBlock<Rows>& block) {
  const int lane = thread_index() % kWarpLanes;
  LOCKSTEP_NO_UNROLL
  for (int part = thread_index() / kWarpLanes; part < block.all_parts; part += warp_count()) {
    const auto [own, is_up] = part_at(block, part);
    LOCKSTEP_NO_UNROLL
    for (int i = lane; i < own.steps; i += kWarpLanes) {
      const uint32_t ended = i + 1 == own.steps ? static_cast<uint32_t>(part) + 1 : 0;
      block.steps[block.step_count + i] =
          static_cast<uint32_t>(own.first_step + i) | (is_up ? 1u : 0u) << StepOf::kUpBit | ended << StepOf::kPartBit;
    }
    block.step_count += own.steps;
    LOCKSTEP_NO_UNROLL
    for (int i = lane; own.steps == 0 && i < kTileElements; i += kWarpLanes) {
      block.sums[part * kTileElements + i] = 0.0f;
    }
  }
  sync_warp();
}

/// The lane's weights of a tile: of gates, or of the only ones, and of ups.
struct TileWords {
  const Words* words;
  const Words* ups;

  LOCKSTEP_DEVICE const Words* at(StepOf step) const { return (step.is_up() ? ups : words) + step.step() * kWarpLanes; }
};

template <typename Rows>
LOCKSTEP_DEVICE TileWords words_of(const FewBlock<Rows>& block, int tile) {
  const int64_t first = static_cast<int64_t>(tile) * block.p.product.k_steps * kWarpLanes + thread_index() % kWarpLanes;
  return {static_cast<const Words*>(block.p.product.weights) + first,
          static_cast<const Words*>(block.p.up_weights) + first};
}

/// Steps whose weights are under way.
struct FewLoads {
  uint32_t steps[kFewLoads];
  Words words[kFewLoads];
};

/// Starts the first loads of the block's first tile, and brings those behind them closer.
template <typename Rows>
LOCKSTEP_DEVICE void load_first(const FewBlock<Rows>& block, FewLoads& to) {
  const TileWords words = words_of(block, block_index());
  LOCKSTEP_UNROLL
  for (int i = 0; i < kFewLoads; ++i) {
    if (i >= block.step_count) break;
    to.steps[i] = block.steps[i];
    to.words[i] = load_once(words.at({to.steps[i]}));
  }
  constexpr int kLines = kWarpLanes * static_cast<int>(sizeof(Words)) / kBroughtBytes;  // of a step
  const int lane = thread_index() % kWarpLanes;
  LOCKSTEP_NO_UNROLL
  for (int i = lane; i < kBroughtSteps * kLines; i += kWarpLanes) {
    const int step = kFewLoads + i / kLines;
    if (step >= block.step_count) break;
    const auto* line = reinterpret_cast<const unsigned char*>(words.at({block.steps[step]}) - lane);
    bring_closer(line + i % kLines * kBroughtBytes);
  }
}

/// Step s of a tile goes through words[s % kFewLoads], which the load of a later step, or of one of the next tile's
/// first, fills again as soon as it is multiplied. Lanes whose row is not there multiply the first row; nothing reads
/// their sums.
template <typename Rows>
LOCKSTEP_DEVICE void sum_tile(const FewBlock<Rows>& block, int tile, FewLoads& ahead) {
  const int lane = thread_index() % kWarpLanes;
  const int next_tile = tile + block_count();
  const bool has_next = next_tile * kTileOutputs < block.p.product.outputs;
  const TileWords own = words_of(block, tile), next = words_of(block, next_tile);
  const auto* x = block.x + (lane / 4 < block.rows ? lane / 4 * block.row_stride : 0) + lane % 4 * 2;
  const auto pair = [&](int at) { return *reinterpret_cast<const uint32_t*>(x + at); };
  float sums[4] = {};
  LOCKSTEP_NO_UNROLL
  for (int done = 0; done < block.step_count; done += kFewLoads) {
    LOCKSTEP_UNROLL
    for (int i = 0; i < kFewLoads; ++i) {
      if (done + i >= block.step_count) break;
      const StepOf step{ahead.steps[i]};
      const uint32_t tokens[2] = {pair(step.step() * kStepColumns), pair(step.step() * kStepColumns + 8)};
      multiply<Rows>(sums, ahead.words[i].word, tokens);
      const int later = done + kFewLoads + i;
      const bool is_own = later < block.step_count;
      if (is_own || has_next) {
        ahead.steps[i] = block.steps[is_own ? later : i];
        ahead.words[i] = load_once(is_own ? own.at({ahead.steps[i]}) : next.at({ahead.steps[i]}));
      }
      if (step.ended_part() < 0) continue;
      store_sums(block.sums + step.ended_part() * kTileElements, sums);
      LOCKSTEP_UNROLL
      for (float& sum : sums) sum = 0.0f;
    }
  }
}

/// The same of f32, whose loads are not ahead.
LOCKSTEP_DEVICE void sum_tile_f32(const FewBlock<F32Rows>& block, int tile) {
  for (int part = thread_index() / kWarpLanes; part < block.all_parts; part += warp_count()) {
    const auto [own, is_up] = part_at(block, part);
    const void* weights = is_up ? block.p.up_weights : block.p.product.weights;
    const int64_t step = static_cast<int64_t>(tile) * block.p.product.k_steps + own.first_step;
    const float* x = block.x + own.first_step * kStepColumns;
    auto& to = *reinterpret_cast<float(*)[1][kTileElements]>(block.sums + part * kTileElements);
    const int end = own.end_column - own.first_column;
    const int columns = end < own.steps * kStepColumns ? end : own.steps * kStepColumns;
    sum_part_f32<1>(
        static_cast<const float*>(weights) + step * kStepColumns * kTileOutputs, columns,
        [&](int, int row, int column) { return row < block.rows ? x[row * block.row_stride + column] : 0.0f; }, to);
  }
}

static_assert(sizeof(FewShared) == kProductFewFixedBytes && sizeof(FewShared) % 16 == 0);

}  // namespace lockstep::cuda
