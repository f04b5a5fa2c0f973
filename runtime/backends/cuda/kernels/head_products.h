// Products by head: blocks of a head multiply its own columns of x with its own outputs.
#pragma once

#include "runtime/backends/cuda/kernels/parameters.h"
#include "runtime/backends/cuda/kernels/rows.h"

namespace lockstep::cuda {

/// The product of the block's head.
template <typename Rows>
LOCKSTEP_DEVICE ProductParameters product_of_head(const ProductHeadsParameters& p) {
  using Element = typename Rows::Element;
  const int64_t head = block_index() / p.blocks;
  ProductParameters own = p.first;
  own.weights = static_cast<const Element*>(own.weights) + head * p.weights;
  own.x = static_cast<const Element*>(own.x) + head * p.x_columns;
  own.y = static_cast<Element*>(own.y) + head * own.outputs;
  return own;
}

/// The block's number among those of its head.
LOCKSTEP_DEVICE int block_of_head(const ProductHeadsParameters& p) {
  return static_cast<int>(block_index() % p.blocks);
}

}  // namespace lockstep::cuda
