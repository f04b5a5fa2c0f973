// Products of at most 8 rows, with what leads to them and what follows from them in one launch: a decode step.
//
//   rows ──norm──► shared memory ─┐
//   weights ──16 bytes a lane──► warps × their parts of K ──► sums ──fold──► bias, gate, additions … ──► y
//                                        (few_sums.h)
#include "runtime/backends/cuda/kernels/few_sums.h"
#include "runtime/backends/cuda/kernels/map_value.h"

namespace lockstep::cuda {
namespace {

// Rows

/// A row of x that a row of the product takes; null: zeros.
template <typename Rows>
LOCKSTEP_DEVICE const typename Rows::Element* row_of(const ProductFewParameters& p, int row) {
  const int from = p.index == nullptr ? row : p.index[row];
  if (from < 0 || from >= p.x_rows) return nullptr;
  return static_cast<const typename Rows::Element*>(p.product.x) + from * p.product.x_stride;
}

/// A row as it is, where parts follow each other without gaps: `vectors` of 16 bytes, several under way.
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
LOCKSTEP_DEVICE void copy_rows(const FewBlock<Rows>& block) {
  using Element = typename Rows::Element;
  constexpr int kVector = 16 / sizeof(Element);
  const int lane = thread_index() % kWarpLanes;
  const int all_columns = block.p.product.k_steps * kStepColumns;
  for (int row = 0; row < block.rows; ++row) {
    const Element* x = row_of<Rows>(block.p, row);
    if (block.p.is_dense != 0 && x != nullptr && reinterpret_cast<uintptr_t>(x) % 16 == 0) {
      copy_dense_row(reinterpret_cast<const Words*>(x), reinterpret_cast<Words*>(block.x + row * block.row_stride),
                     all_columns / kVector);
      continue;
    }
    for (int number = thread_index() / kWarpLanes; number < block.part_count; number += warp_count()) {
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
LOCKSTEP_DEVICE void norm_rows(const FewBlock<Rows>& block) {
  using Element = typename Rows::Element;
  const ProductFewParameters& p = block.p;
  for (int row = 0; row < block.rows; ++row) {
    const Element* x = row_of<Rows>(p, row);
    Element* to = block.x + row * block.row_stride;
    const auto read = [&](int i) { return x == nullptr ? 0.0f : Rows::read(x[i]); };
    const auto write = [&](int i, float value) { to[i] = Rows::write(value); };
    if (p.norm.has_mean == 0) {
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
LOCKSTEP_DEVICE void prepare_rows(const FewBlock<Rows>& block) {
  if (block.p.norm.is_present == 0) {
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

// Results

/// Sums eight parts as the tree does.
LOCKSTEP_DEVICE float tree_of_eight(const float (&part)[8]) {
  return plus(plus(plus(part[0], part[1]), plus(part[2], part[3])),
              plus(plus(part[4], part[5]), plus(part[6], part[7])));
}

/// Folds the parts of an element; `write(root, sum)` gets each root.
template <typename Rows, typename Write>
LOCKSTEP_DEVICE void fold_parts(const FewBlock<Rows>& block, int first, int element, Write write) {
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
LOCKSTEP_DEVICE void write_element(const FewBlock<Rows>& block, int element, int row, int output,
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
    // An activation is many instructions.
    LOCKSTEP_NO_UNROLL
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
  FewBlock<Rows> block = block_of<Rows>(p);
  for (int i = thread_index(); i < p.product.part_count; i += thread_count())
    block.shared.parts[i] = p.product.parts[i];
  sync_block();
  bring_norm<Rows>(p);
  FewLoads ahead;
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

LOCKSTEP_KERNEL_HELD(product_few_f32, ProductFewParameters, kMostFewThreads, 1) { product_few<F32Rows>(p); }
LOCKSTEP_KERNEL_HELD(product_few_bf16, ProductFewParameters, kMostFewThreads, 1) { product_few<Bf16Rows>(p); }
LOCKSTEP_KERNEL_HELD(product_few_f16, ProductFewParameters, kMostFewThreads, 1) { product_few<F16Rows>(p); }

}  // namespace lockstep::cuda
