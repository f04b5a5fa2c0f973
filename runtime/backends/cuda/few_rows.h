// Which products one launch can compute with what leads to them and follows from them: those of few rows.
#pragma once

#include <vector>

#include "runtime/backends/cuda/kernels/parameters.h"
#include "runtime/graph/graph.h"

namespace lockstep::cuda {

/// The most steps of a tile that one of `warps` warps of product_few takes, of `sums` sums of these parts; a multiple
/// of 4.
int64_t most_warp_steps(const std::vector<SumPart>& parts, int sums, int warps);

/// Whether the steps of `parts` take all of `columns` in order, 16 each.
bool are_dense(const std::vector<SumPart>& parts, int64_t columns);

/// Whether `product_few` takes a product: of elements, with at most 8 rows, which fit a block's shared memory with all
/// parts of its sums. `sums` of each row: two where gates and what they gate are computed together.
bool has_few_rows(const graph::Graph& graph, const graph::Node& product, int sums);

/// How the parts of a sum follow each other, for `product_few`.
FoldKind fold_of(const std::vector<SumPart>& parts);

/// The parts of a product's sums.
std::vector<SumPart> parts_of_product(const graph::Graph& graph, const graph::Node& product);

}  // namespace lockstep::cuda
