// Products of at most 8 rows, with what leads to them and what follows from them in one launch: a decode step.
//
//   rows ──norm──► shared memory ─┐
//   weights ──16 bytes a lane──► 8 warps × their parts of K ──► sums ──fold──► bias, gate, additions … ──► y
//
// Reading the weights is all that takes time, so a lane always has 8 loads under way: the first ones before the wait
// for the launch ahead, each next one as soon as one is multiplied, the next tile's while this tile's sums are folded.
// The sums are those of sum_tile.h.
#include "runtime/backends/cuda/kernels/map_value.h"
#include "runtime/backends/cuda/kernels/norms.h"
#include "runtime/backends/cuda/kernels/sum_tile.h"

namespace lockstep::cuda {
namespace {

constexpr int kLoads = 8;
constexpr int kBroughtSteps = 16;  // behind the first loads, while the launch ahead runs

LOCKSTEP_DEVICE int warps() { return thread_count() / kWarpLanes; }

/// Ahead of the sums [parts][kTileElements] and of the rows [rows][stride].
struct FewShared {
  NormShared norms[kTileRows];
  float stack[kMostLevels][1][kTileElements];
  SumPart parts[kMostFewParts];
};

/// What a block works with.
template <typename Rows>
struct Block {
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
LOCKSTEP_DEVICE Block<Rows> block_of(const ProductFewParameters& p) {
  using Element = typename Rows::Element;
  const int all_parts = p.up_weights == nullptr ? p.product.part_count : 2 * p.product.part_count;
  auto& shared = shared_memory_of<FewShared>(p.shared_bytes);
  auto* sums = reinterpret_cast<float*>(&shared + 1);
  auto* steps = reinterpret_cast<uint32_t*>(sums + all_parts * kTileElements);
  return {p,
          shared,
          sums,
          reinterpret_cast<Element*>(steps + warps() * p.warp_steps),
          p.row_stride,
          steps + thread_index() / kWarpLanes * p.warp_steps,
          0,
          0,
          p.product.part_count,
          all_parts};
}

// Rows

/// A row of x that a row of the product takes; null: zeros.
template <typename Rows>
LOCKSTEP_DEVICE const typename Rows::Element* row_of(const ProductFewParameters& p, int row) {
  const int from = p.index == nullptr ? row : p.index[row];
  if (from < 0 || from >= p.x_rows) return nullptr;
  return static_cast<const typename Rows::Element*>(p.product.x) + from * p.product.x_stride;
}

/// A row as it is, where parts follow each other without gaps: `vectors` of 16 bytes, several under way.
template <typename Rows>
LOCKSTEP_DEVICE void copy_dense_row(const Words* from, Words* to, int vectors) {
  constexpr int kUnderWay = 4;
  for (int first = thread_index(); first < vectors; first += kUnderWay * thread_count()) {
    Words words[kUnderWay];
    LOCKSTEP_UNROLL
    for (int i = 0; i < kUnderWay; ++i) {
      const int at = first + i * thread_count();
      if (at < vectors) words[i] = from[at];
    }
    LOCKSTEP_UNROLL
    for (int i = 0; i < kUnderWay; ++i) {
      const int at = first + i * thread_count();
      if (at < vectors) to[at] = words[i];
    }
  }
}

/// Rows as they are, each part's columns where its steps are, zeros behind them. A warp copies its parts.
template <typename Rows>
LOCKSTEP_DEVICE void copy_rows(const Block<Rows>& block) {
  using Element = typename Rows::Element;
  constexpr int kVector = 16 / sizeof(Element);
  const int lane = thread_index() % kWarpLanes;
  const int all_columns = block.p.product.k_steps * kStepColumns;
  for (int row = 0; row < block.rows; ++row) {
    const Element* x = row_of<Rows>(block.p, row);
    if (block.p.is_dense != 0 && x != nullptr && reinterpret_cast<uintptr_t>(x) % 16 == 0) {
      copy_dense_row<Rows>(reinterpret_cast<const Words*>(x),
                           reinterpret_cast<Words*>(block.x + row * block.row_stride), all_columns / kVector);
      continue;
    }
    for (int number = thread_index() / kWarpLanes; number < block.part_count; number += warps()) {
      const SumPart& part = block.shared.parts[number];
      Element* to = block.x + row * block.row_stride + part.first_step * kStepColumns;
      const int columns = x == nullptr ? 0 : part.end_column - part.first_column;
      const int end = part.steps * kStepColumns;
      const Element* from = x + part.first_column;
      const bool is_aligned = columns >= end && reinterpret_cast<uintptr_t>(from) % 16 == 0;
      if (is_aligned) {
        for (int i = lane; i < end / kVector; i += kWarpLanes) {
          reinterpret_cast<Words*>(to)[i] = reinterpret_cast<const Words*>(from)[i];
        }
      } else {
        for (int i = lane; i < end; i += kWarpLanes) to[i] = i < columns ? from[i] : Element{0};
      }
    }
  }
}

/// Brings the norm's weights closer.
template <typename Rows>
LOCKSTEP_DEVICE void bring_norm(const ProductFewParameters& p) {
  if (p.norm.weight == nullptr) return;
  const int bytes = p.columns * static_cast<int>(sizeof(typename Rows::Element));
  for (int at = thread_index() * kBroughtBytes; at < bytes; at += thread_count() * kBroughtBytes) {
    bring_closer(static_cast<const unsigned char*>(p.norm.weight) + at);
  }
}

template <typename Rows>
LOCKSTEP_DEVICE void norm_rows(const Block<Rows>& block) {
  using Element = typename Rows::Element;
  const ProductFewParameters& p = block.p;
  for (int row = 0; row < block.rows; ++row) {
    const Element* x = row_of<Rows>(p, row);
    Element* to = block.x + row * block.row_stride;
    const auto read = [&](int i) { return x == nullptr ? 0.0f : Rows::read(x[i]); };
    const auto write = [&](int i, float value) { to[i] = Rows::write(value); };
    if (p.norm.bias == nullptr) {
      rms_norm_row<Rows>(p.norm, p.columns, read, write, block.shared.norms[row]);
    } else {
      layer_norm_row<Rows>(p.norm, p.columns, read, write, block.shared.norms[row]);
    }
    for (int i = p.columns + thread_index(); i < p.product.k_steps * kStepColumns; i += thread_count()) {
      to[i] = Element{0};
    }
  }
}

template <typename Rows>
LOCKSTEP_DEVICE void prepare_rows(const Block<Rows>& block) {
  if (block.p.norm.weight == nullptr) {
    copy_rows(block);
  } else {
    norm_rows(block);
  }
  sync_block();
  if (block.p.kept == nullptr || block_index() != 0) return;
  auto* kept = static_cast<typename Rows::Element*>(block.p.kept);
  for (int row = 0; row < block.rows; ++row) {
    for (int i = thread_index(); i < block.p.columns; i += thread_count()) {
      kept[static_cast<int64_t>(row) * block.p.columns + i] = block.x[row * block.row_stride + i];
    }
  }
}

// Sums

/// A step of a warp as a word: its number in the tile, whether its weights are those of ups, and, if it ends a part,
/// 1 + the part.
struct StepOf {
  static constexpr int kUpBit = 20, kPartBit = 21;
  uint32_t word;

  LOCKSTEP_DEVICE int step() const { return static_cast<int>(word & ((1u << kUpBit) - 1)); }
  LOCKSTEP_DEVICE bool is_up() const { return (word >> kUpBit & 1) != 0; }
  LOCKSTEP_DEVICE int ended_part() const { return static_cast<int>(word >> kPartBit) - 1; }
};

/// Lists the steps of the warp's parts, every one behind as many as there are warps. Parts without steps get their
/// zeros once: no later tile writes them.
template <typename Rows>
LOCKSTEP_DEVICE void list_steps(Block<Rows>& block) {
  const int lane = thread_index() % kWarpLanes;
  LOCKSTEP_NO_UNROLL
  for (int part = thread_index() / kWarpLanes; part < block.all_parts; part += warps()) {
    const bool is_up = part >= block.part_count;
    const SumPart& own = block.shared.parts[is_up ? part - block.part_count : part];
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
LOCKSTEP_DEVICE TileWords words_of(const Block<Rows>& block, int tile) {
  const int64_t first = static_cast<int64_t>(tile) * block.p.product.k_steps * kWarpLanes + thread_index() % kWarpLanes;
  return {static_cast<const Words*>(block.p.product.weights) + first,
          static_cast<const Words*>(block.p.up_weights) + first};
}

/// Steps whose weights are under way.
struct Loads {
  uint32_t steps[kLoads];
  Words words[kLoads];
};

/// Starts the first loads of the block's first tile, and brings those behind them closer.
template <typename Rows>
LOCKSTEP_DEVICE void load_first(const Block<Rows>& block, Loads& to) {
  const TileWords words = words_of(block, block_index());
  LOCKSTEP_UNROLL
  for (int i = 0; i < kLoads; ++i) {
    if (i >= block.step_count) break;
    to.steps[i] = block.steps[i];
    to.words[i] = load_once(words.at({to.steps[i]}));
  }
  constexpr int kLines = kWarpLanes * static_cast<int>(sizeof(Words)) / kBroughtBytes;  // of a step
  const int lane = thread_index() % kWarpLanes;
  LOCKSTEP_NO_UNROLL
  for (int i = lane; i < kBroughtSteps * kLines; i += kWarpLanes) {
    const int step = kLoads + i / kLines;
    if (step >= block.step_count) break;
    const auto* line = reinterpret_cast<const unsigned char*>(words.at({block.steps[step]}) - lane);
    bring_closer(line + i % kLines * kBroughtBytes);
  }
}

LOCKSTEP_DEVICE void store_sums(float* to, const float (&sums)[4]) {
  const int lane = thread_index() % kWarpLanes;
  LOCKSTEP_UNROLL
  for (int i = 0; i < 4; ++i) to[(lane / 4 + i / 2 * 8) * kTileRows + lane % 4 * 2 + i % 2] = sums[i];
}

/// Step s of a tile goes through words[s % kLoads], which the load of a later step, or of one of the next tile's first,
/// fills again as soon as it is multiplied. Lanes of rows that are not there multiply what lies in the first row:
/// nobody reads their sums.
template <typename Rows>
LOCKSTEP_DEVICE void sum_tile(const Block<Rows>& block, int tile, Loads& ahead) {
  const int lane = thread_index() % kWarpLanes;
  const int next_tile = tile + block_count();
  const bool has_next = next_tile * kTileOutputs < block.p.product.outputs;
  const TileWords own = words_of(block, tile), next = words_of(block, next_tile);
  const auto* x = block.x + (lane / 4 < block.rows ? lane / 4 * block.row_stride : 0) + lane % 4 * 2;
  const auto pair = [&](int at) { return *reinterpret_cast<const uint32_t*>(x + at); };
  float sums[4] = {};
  LOCKSTEP_NO_UNROLL
  for (int done = 0; done < block.step_count; done += kLoads) {
    LOCKSTEP_UNROLL
    for (int i = 0; i < kLoads; ++i) {
      if (done + i >= block.step_count) break;
      const StepOf step{ahead.steps[i]};
      const uint32_t tokens[2] = {pair(step.step() * kStepColumns), pair(step.step() * kStepColumns + 8)};
      multiply<Rows>(sums, ahead.words[i].word, tokens);
      const int later = done + kLoads + i;
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
LOCKSTEP_DEVICE void sum_tile_f32(const Block<F32Rows>& block, int tile) {
  for (int part = thread_index() / kWarpLanes; part < block.all_parts; part += warps()) {
    const SumPart& own = block.shared.parts[part < block.part_count ? part : part - block.part_count];
    const void* weights = part < block.part_count ? block.p.product.weights : block.p.up_weights;
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

// Results

/// Sums eight parts as the tree does.
LOCKSTEP_DEVICE float tree_of_eight(const float (&part)[8]) {
  return plus(plus(plus(part[0], part[1]), plus(part[2], part[3])),
              plus(plus(part[4], part[5]), plus(part[6], part[7])));
}

/// Folds the parts of an element; `write(root, sum)` gets each root.
template <typename Rows, typename Write>
LOCKSTEP_DEVICE void fold_parts(const Block<Rows>& block, int first, int element, Write write) {
  const float* sums = block.sums + first * kTileElements + element;
  const SumPart* parts = block.shared.parts;
  const int at_once = block.p.fold == kFoldAny ? 1 : 8;
  int height = 0;
  LOCKSTEP_NO_UNROLL
  for (int part = 0; part < block.part_count; part += at_once) {
    const SumPart& last = parts[part + at_once - 1];
    float sum = sums[part * kTileElements];
    int merges = last.merges;
    if (block.p.fold != kFoldAny) {
      float own[8];
      LOCKSTEP_UNROLL
      for (int i = 0; i < 8; ++i) own[i] = sums[(part + i) * kTileElements];
      if (block.p.fold == kFoldChain) {
        LOCKSTEP_UNROLL
        for (int i = 1; i < 8; ++i) sum = plus(sum, own[i]);
      } else {
        sum = tree_of_eight(own);
        merges -= 3;
      }
    }
    if (block.p.fold != kFoldChain) height = push<1>(block.shared.stack, 0, element, height, merges, sum);
    if (last.root < 0) continue;
    write(last.root, sum);
    height = 0;
  }
}

template <typename Rows>
LOCKSTEP_DEVICE float with_bias(const void* bias, int output, float sum) {
  if (bias == nullptr) return sum;
  return plus(sum, Rows::read(static_cast<const typename Rows::Element*>(bias)[output]));
}

/// An element's operand of a finish.
template <typename Rows>
LOCKSTEP_DEVICE float read_operand(const ProductFewParameters& p, const Finish& finish, int row, int output) {
  if (finish.z == nullptr) return 0.0f;
  const int64_t at = row * finish.z_stride + output;
  if (p.product.is_float != 0) return static_cast<const float*>(finish.z)[at];
  return Rows::read(static_cast<const typename Rows::Element*>(finish.z)[at]);
}

template <typename Rows>
LOCKSTEP_DEVICE void write_element(const Block<Rows>& block, int element, int row, int output,
                                   const float (&operands)[kMostFinishes]) {
  using Element = typename Rows::Element;
  const ProductFewParameters& p = block.p;
  const auto round = [&](float value) { return p.product.is_float != 0 ? value : Rows::round(value); };
  float up = 0.0f;
  if (p.up_weights != nullptr) {
    fold_parts(block, block.part_count, element,
               [&](int, float sum) { up = round(with_bias<Rows>(p.up_bias, output, sum)); });
  }
  fold_parts(block, 0, element, [&](int root, float sum) {
    float value = with_bias<Rows>(p.product.bias, output, sum);
    if (p.up_weights != nullptr) value = map_value(kMapGate, p.gate, 0.0f, round(value), up);
    LOCKSTEP_NO_UNROLL  // an activation is many instructions
        for (int i = 0; i < p.finish_count; ++i) {
      const Finish& finish = p.finishes[i];
      const float operand = i == 0 ? operands[0] : i == 1 ? operands[1] : i == 2 ? operands[2] : operands[3];
      value = map_value(finish.kind, finish.activation, finish.number, round(value), operand);
    }
    const int64_t at = root * p.product.y_plane + row * p.product.y_stride + output;
    if (p.product.is_float != 0) {
      static_cast<float*>(p.product.y)[at] = value;
    } else {
      static_cast<Element*>(p.product.y)[at] = Rows::write(value);
    }
  });
}

template <typename Rows>
LOCKSTEP_DEVICE void product_few(const ProductFewParameters& p) {
  constexpr bool kIsFloat = sizeof(typename Rows::Element) == 4;
  Block<Rows> block = block_of<Rows>(p);
  for (int i = thread_index(); i < p.product.part_count; i += thread_count())
    block.shared.parts[i] = p.product.parts[i];
  sync_block();
  bring_norm<Rows>(p);
  Loads ahead;
  if constexpr (!kIsFloat) {
    list_steps(block);
    load_first(block, ahead);
  }
  block.rows = used(p.product.rows);  // there before the step's first launch
  follow_previous();
  prepare_rows(block);
  const int row = thread_index() % kTileRows;
  const int tiles = (p.product.outputs + kTileOutputs - 1) / kTileOutputs;
  for (int tile = block_index(); tile < tiles; tile += block_count()) {
    const int output = tile * kTileOutputs + thread_index() / kTileRows;
    const bool is_own = thread_index() < kTileElements && row < block.rows && output < p.product.outputs;
    float operands[kMostFinishes];
    LOCKSTEP_UNROLL
    for (int i = 0; i < kMostFinishes; ++i) {
      operands[i] = is_own && i < p.finish_count ? read_operand<Rows>(p, p.finishes[i], row, output) : 0.0f;
    }
    if constexpr (kIsFloat) {
      sum_tile_f32(block, tile);
    } else {
      sum_tile(block, tile, ahead);
    }
    sync_block();
    if (is_own) write_element(block, thread_index(), row, output, operands);
    sync_block();
  }
}

}  // namespace

static_assert(sizeof(FewShared) == kProductFewFixedBytes && sizeof(FewShared) % 16 == 0);

LOCKSTEP_KERNEL_HELD(product_few_f32, ProductFewParameters, kMostFewThreads, 1) { product_few<F32Rows>(p); }
LOCKSTEP_KERNEL_HELD(product_few_bf16, ProductFewParameters, kMostFewThreads, 1) { product_few<Bf16Rows>(p); }
LOCKSTEP_KERNEL_HELD(product_few_f16, ProductFewParameters, kMostFewThreads, 1) { product_few<F16Rows>(p); }

}  // namespace lockstep::cuda
