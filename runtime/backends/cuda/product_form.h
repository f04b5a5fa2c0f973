// Which kernel multiplies with a weight, by the step's rows: some or many. Few rows are product_few's (few_rows.h). All
// give the same bits.
//
//   rows   … 8       product         16 outputs a block: bound by reading the weights, which it reads once (f32: … 32)
//          9 …       product_tiles   128 outputs of 64 rows a block: weights are read once for 64 rows
//                    product_wide    of 128 rows, where that leaves a block for every multiprocessor
//
// Products by head have the first two, product_heads and product_heads_tiles.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "runtime/backends/cuda/kernels/parameters.h"
#include "runtime/core/dtype.h"

namespace lockstep::cuda {

/// What the choice depends on. `x` lies at `address`, its rows `stride` elements apart.
struct ProductShape {
  DType dtype = DType::kBFloat16;
  int64_t rows = 0;
  int64_t outputs = 0;
  uint64_t address = 0;
  int64_t stride = 0;
  int64_t head_columns = 0;  // of x, of each head of a product by head; 0: a plain product
};

struct ProductForm {
  std::string_view kernel;  // without the suffix of a type
  int64_t blocks = 0;       // of a head
  int64_t shared_bytes = 0;
  int32_t levels = 0;  // of open sums in shared memory

  friend bool operator==(const ProductForm&, const ProductForm&) = default;
};

/// Pure. The kernels of many rows copy 16 bytes at a time: they are left out where x is not aligned for that.
ProductForm product_form(const ProductShape& shape, const std::vector<SumPart>& parts);

}  // namespace lockstep::cuda
