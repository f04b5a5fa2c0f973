// Products of at most 8 rows, with what leads to them and what follows from them in one launch: a decode step.
//
//   rows ──norm──► shared memory ─┐
//   weights ──16 bytes a lane──► 8 warps × their parts of K ──► sums ──fold──► bias, gate, additions … ──► y
//
// Reading the weights is all that takes time, so a lane always has 8 to 16 loads under way: the first ones before the
// wait for the launch ahead, the next tile's while this tile's sums are folded. The sums are those of sum_tile.h.
#include "runtime/backends/cuda/kernels/map_value.h"
#include "runtime/backends/cuda/kernels/norms.h"
#include "runtime/backends/cuda/kernels/sum_tile.h"

namespace lockstep::cuda {
namespace {

constexpr int kLoads = 8;
constexpr int kBroughtSteps = 16;  // behind the first loads, while the launch ahead runs

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
  return {p,
          shared,
          sums,
          reinterpret_cast<Element*>(sums + all_parts * kTileElements),
          p.row_stride,
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

/// Rows as they are, each part's columns where its steps are, zeros behind them. A warp copies its parts.
template <typename Rows>
LOCKSTEP_DEVICE void copy_rows(const Block<Rows>& block) {
  using Element = typename Rows::Element;
  constexpr int kVector = 16 / sizeof(Element);
  const int lane = thread_index() % kWarpLanes;
  for (int row = 0; row < block.rows; ++row) {
    const Element* x = row_of<Rows>(block.p, row);
    for (int number = thread_index() / kWarpLanes; number < block.part_count; number += kProductWarps) {
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

/// A warp's place among the steps of its parts of a tile: every eighth part.
struct Place {
  int part;
  int left;  // steps of the part
  int step;
};

/// Moves on to the first part from `part` on that has steps.
template <typename Rows>
LOCKSTEP_DEVICE Place place_from(const Block<Rows>& block, int part) {
  for (; part < block.all_parts; part += kProductWarps) {
    const SumPart& own = block.shared.parts[part < block.part_count ? part : part - block.part_count];
    if (own.steps > 0) return {part, own.steps, own.first_step};
  }
  return {part, 0, 0};
}

template <typename Rows>
LOCKSTEP_DEVICE void advance(const Block<Rows>& block, Place& place) {
  ++place.step;
  if (--place.left == 0) place = place_from(block, place.part + kProductWarps);
}

/// The lane's weights of a step.
template <typename Rows>
LOCKSTEP_DEVICE const Words* words_of(const Block<Rows>& block, int tile, const Place& place) {
  const void* weights = place.part < block.part_count ? block.p.product.weights : block.p.up_weights;
  const int64_t step = static_cast<int64_t>(tile) * block.p.product.k_steps + place.step;
  return static_cast<const Words*>(weights) + step * kWarpLanes + thread_index() % kWarpLanes;
}

/// Starts the next loads of a tile.
template <typename Rows>
LOCKSTEP_DEVICE void load_steps(const Block<Rows>& block, int tile, Place& place, Words (&to)[kLoads]) {
  LOCKSTEP_UNROLL
  for (int i = 0; i < kLoads; ++i) {
    if (place.part >= block.all_parts) break;
    to[i] = load_once(words_of(block, tile, place));
    advance(block, place);
  }
}

/// Brings the next steps of a tile closer.
template <typename Rows>
LOCKSTEP_DEVICE void bring_steps(const Block<Rows>& block, int tile, Place place) {
  constexpr int kLanes = kBroughtBytes / sizeof(Words);  // whose words lie together
  for (int i = 0; i < kBroughtSteps && place.part < block.all_parts; ++i) {
    if (thread_index() % kLanes == 0) bring_closer(words_of(block, tile, place));
    advance(block, place);
  }
}

/// Steps of the warp's parts of a tile. Parts without steps get their zeros once: no later tile writes them.
template <typename Rows>
LOCKSTEP_DEVICE int count_steps(const Block<Rows>& block) {
  int steps = 0;
  for (int part = thread_index() / kWarpLanes; part < block.all_parts; part += kProductWarps) {
    const int own = block.shared.parts[part < block.part_count ? part : part - block.part_count].steps;
    steps += own;
    if (own > 0) continue;
    for (int i = thread_index() % kWarpLanes; i < kTileElements; i += kWarpLanes) {
      block.sums[part * kTileElements + i] = 0.0f;
    }
  }
  return steps;
}

LOCKSTEP_DEVICE void store_sums(float* to, const float (&sums)[4]) {
  const int lane = thread_index() % kWarpLanes;
  LOCKSTEP_UNROLL
  for (int i = 0; i < 4; ++i) to[(lane / 4 + i / 2 * 8) * kTileRows + lane % 4 * 2 + i % 2] = sums[i];
}

/// The loads of a warp, a group ahead of its multiplications.
struct Loads {
  Place place;
  Words words[kLoads];
};

template <typename Rows>
LOCKSTEP_DEVICE void sum_tile(const Block<Rows>& block, int tile, int steps, Loads& ahead) {
  const int lane = thread_index() % kWarpLanes;
  const bool has_row = lane / 4 < block.rows;
  const auto* x = block.x + (has_row ? lane / 4 * block.row_stride : 0) + lane % 4 * 2;
  const auto pair = [&](int at) { return has_row ? *reinterpret_cast<const uint32_t*>(x + at) : 0u; };
  Place place = place_from(block, thread_index() / kWarpLanes);
  float sums[4] = {};
  for (int done = 0; done < steps; done += kLoads) {
    Words words[kLoads];
    LOCKSTEP_UNROLL
    for (int i = 0; i < kLoads; ++i) words[i] = ahead.words[i];
    if (done + kLoads < steps) {
      load_steps(block, tile, ahead.place, ahead.words);
    } else if (tile + block_count() < (block.p.product.outputs + kTileOutputs - 1) / kTileOutputs) {
      ahead.place = place_from(block, thread_index() / kWarpLanes);
      load_steps(block, tile + block_count(), ahead.place, ahead.words);
    }
    LOCKSTEP_UNROLL
    for (int i = 0; i < kLoads; ++i) {
      if (done + i >= steps) break;
      const uint32_t tokens[2] = {pair(place.step * kStepColumns), pair(place.step * kStepColumns + 8)};
      multiply<Rows>(sums, words[i].word, tokens);
      if (place.left == 1) {
        store_sums(block.sums + place.part * kTileElements, sums);
        LOCKSTEP_UNROLL
        for (float& sum : sums) sum = 0.0f;
      }
      advance(block, place);
    }
  }
}

/// The same of f32, whose loads are not ahead.
LOCKSTEP_DEVICE void sum_tile_f32(const Block<F32Rows>& block, int tile) {
  for (int part = thread_index() / kWarpLanes; part < block.all_parts; part += kProductWarps) {
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
  if (block.p.fold == kFoldAny) {
    int height = 0;
    for (int part = 0; part < block.part_count; ++part) {
      float sum = sums[part * kTileElements];
      height = push<1>(block.shared.stack, 0, element, height, parts[part].merges, sum);
      if (parts[part].root < 0) continue;
      write(parts[part].root, sum);
      height = 0;
    }
    return;
  }
  int height = 0;
  for (int part = 0; part < block.part_count; part += 8) {
    float own[8];
    LOCKSTEP_UNROLL
    for (int i = 0; i < 8; ++i) own[i] = sums[(part + i) * kTileElements];
    const SumPart& last = parts[part + 7];
    float sum = own[0];
    if (block.p.fold == kFoldChain) {
      LOCKSTEP_UNROLL
      for (int i = 1; i < 8; ++i) sum = plus(sum, own[i]);
    } else {
      sum = tree_of_eight(own);
      height = push<1>(block.shared.stack, 0, element, height, last.merges - 3, sum);
    }
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
    LOCKSTEP_UNROLL
    for (int i = 0; i < kMostFinishes; ++i) {
      if (i >= p.finish_count) break;
      value = map_value(p.finishes[i].kind, p.finishes[i].activation, p.finishes[i].number, round(value), operands[i]);
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
  for (int i = thread_index(); i < p.product.part_count; i += kProductThreads)
    block.shared.parts[i] = p.product.parts[i];
  sync_block();
  const int steps = count_steps(block);
  Loads ahead{place_from(block, thread_index() / kWarpLanes), {}};
  if constexpr (!kIsFloat) {
    load_steps(block, block_index(), ahead.place, ahead.words);
    bring_steps(block, block_index(), ahead.place);
  }
  follow_previous();
  block.rows = used(p.product.rows);
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
      sum_tile(block, tile, steps, ahead);
    }
    sync_block();
    if (is_own) write_element(block, thread_index(), row, output, operands);
    sync_block();
  }
}

}  // namespace

static_assert(sizeof(FewShared) == kProductFewFixedBytes && sizeof(FewShared) % 16 == 0);

LOCKSTEP_KERNEL(product_few_f32, ProductFewParameters, kProductThreads) { product_few<F32Rows>(p); }
LOCKSTEP_KERNEL(product_few_bf16, ProductFewParameters, kProductThreads) { product_few<Bf16Rows>(p); }
LOCKSTEP_KERNEL(product_few_f16, ProductFewParameters, kProductThreads) { product_few<F16Rows>(p); }

}  // namespace lockstep::cuda
