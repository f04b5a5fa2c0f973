// Products with weights, of many rows.
#include "runtime/backends/cuda/kernels/head_products.h"
#include "runtime/backends/cuda/kernels/sum_tile.h"
#include "runtime/backends/cuda/kernels/write_product.h"

namespace lockstep::cuda {
namespace {

/// One part of the sums of a tile of outputs, of the rows from `first_row` on.
template <typename Rows, int kGroups>
LOCKSTEP_DEVICE void sum_rows(const ProductParameters& p, int tile_of_outputs, const SumPart& part, int first_row,
                              int rows, float (&to)[kGroups][kTileElements]) {
  using Element = typename Rows::Element;
  const int64_t tile = (static_cast<int64_t>(tile_of_outputs) * p.k_steps + part.first_step) * 256;
  const Element* weights = static_cast<const Element*>(p.weights) + tile;
  const int end = part.end_column - part.first_column;
  const auto row_at = [&](int group, int row) {
    return static_cast<const Element*>(p.x) + (first_row + group * kTileRows + row) * p.x_stride + part.first_column;
  };
  const auto is_inside = [&](int group, int row) { return first_row + group * kTileRows + row < rows; };
  if constexpr (sizeof(Element) == 4) {
    const int columns = end < part.steps * kStepColumns ? end : part.steps * kStepColumns;
    sum_part_f32<kGroups>(
        weights, columns,
        [&](int group, int row, int column) { return is_inside(group, row) ? row_at(group, row)[column] : 0.0f; }, to);
  } else {
    sum_part<Rows, kGroups>(
        weights, part.steps,
        [&](int group, int row, int column) {
          return is_inside(group, row) ? pair_at<Rows>(row_at(group, row), column, end) : 0u;
        },
        to);
  }
}

template <typename Rows, int kGroups>
LOCKSTEP_DEVICE void product(const ProductParameters& p, int tile) {
  follow_previous();
  TileSums<kGroups>& shared = shared_memory<TileSums<kGroups>>();
  const int warp = thread_index() / 32;
  const int rows = used(p.rows);
  for (int first_row = 0; first_row < rows; first_row += kGroups * kTileRows) {
    int height = 0;
    for (int first = 0; first < p.part_count; first += kProductWarps) {
      if (first + warp < p.part_count) {
        sum_rows<Rows, kGroups>(p, tile, p.parts[first + warp], first_row, rows, shared.parts[warp]);
      }
      sync_block();
      int after = height;
      for (int i = thread_index(); i < kGroups * kTileElements; i += kProductThreads) {
        const int group = i / kTileElements;
        const int element = i % kTileElements;
        const int row = first_row + group * kTileRows + element % kTileRows;
        after = height;
        for (int part = first; part < first + kProductWarps && part < p.part_count; ++part) {
          float sum = shared.parts[part - first][group][element];
          after = push<kGroups>(shared.stack, group, element, after, p.parts[part].merges, sum);
          if (p.parts[part].root < 0) continue;
          if (row < rows) {
            write_product<Rows>(p, p.parts[part].root, row, tile * kTileOutputs + element / kTileRows, sum);
          }
          after = 0;
        }
      }
      for (int part = first; part < first + kProductWarps && part < p.part_count; ++part) {
        height = p.parts[part].root < 0 ? height + 1 - p.parts[part].merges : 0;
      }
      sync_block();
    }
  }
}

template <typename Rows>
LOCKSTEP_DEVICE void product_heads(const ProductHeadsParameters& p) {
  product<Rows, 4>(product_of_head<Rows>(p), block_of_head(p));
}

}  // namespace

LOCKSTEP_KERNEL(product_f32, ProductParameters, kProductThreads) { product<F32Rows, 4>(p, block_index()); }
LOCKSTEP_KERNEL(product_bf16, ProductParameters, kProductThreads) { product<Bf16Rows, 4>(p, block_index()); }
LOCKSTEP_KERNEL(product_f16, ProductParameters, kProductThreads) { product<F16Rows, 4>(p, block_index()); }

LOCKSTEP_KERNEL(product_heads_f32, ProductHeadsParameters, kProductThreads) { product_heads<F32Rows>(p); }
LOCKSTEP_KERNEL(product_heads_bf16, ProductHeadsParameters, kProductThreads) { product_heads<Bf16Rows>(p); }
LOCKSTEP_KERNEL(product_heads_f16, ProductHeadsParameters, kProductThreads) { product_heads<F16Rows>(p); }

}  // namespace lockstep::cuda
