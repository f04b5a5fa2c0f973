#include "runtime/backends/cuda/product_form.h"

#include <algorithm>

#include "runtime/backends/cuda/sum_parts.h"

namespace lockstep::cuda {
namespace {

constexpr int64_t kMultiprocessors = 132;  // of H100 and H200

int64_t parts_of(int64_t whole, int64_t part) { return (whole + part - 1) / part; }

bool is_aligned(const ProductShape& shape, const std::vector<SumPart>& parts) {
  const auto size = static_cast<int64_t>(size_of(shape.dtype));
  return shape.address % 16 == 0 && shape.stride * size % 16 == 0 && shape.head_columns * size % 16 == 0 &&
         std::ranges::all_of(parts, [&](const SumPart& part) { return part.first_column * size % 16 == 0; });
}

int most_rows_of_product(DType dtype) { return size_of(dtype) == 2 ? kTileRows : kSomeRows; }

ProductForm tiles(std::string_view kernel, const ProductShape& shape, int groups, int levels) {
  return {.kernel = kernel,
          .blocks = parts_of(shape.outputs, kProductWarps * kTileOutputs) * parts_of(shape.rows, groups * kTileRows),
          .shared_bytes = product_tiles_bytes(groups, levels),
          .levels = levels};
}

}  // namespace

ProductForm product_form(const ProductShape& shape, const std::vector<SumPart>& parts) {
  const int64_t blocks = parts_of(shape.outputs, kTileOutputs);
  const int levels = open_levels(parts);
  const bool is_by_head = shape.head_columns > 0;
  const ProductForm narrow = tiles(is_by_head ? "product_heads_tiles" : "product_tiles", shape, kTilesGroups, levels);
  if (shape.rows <= most_rows_of_product(shape.dtype) || narrow.shared_bytes > kMostTilesBytes ||
      !is_aligned(shape, parts)) {
    return {is_by_head ? "product_heads" : "product", blocks, kProductSharedBytes, 0};
  }
  const ProductForm wide = tiles("product_wide", shape, kWideGroups, levels);
  const bool is_wide = !is_by_head && size_of(shape.dtype) == 2 && shape.rows > kTilesGroups * kTileRows &&
                       wide.blocks >= kMultiprocessors && wide.shared_bytes <= kMostTilesBytes;
  return is_wide ? wide : narrow;
}

}  // namespace lockstep::cuda
