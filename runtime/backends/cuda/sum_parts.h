// How sums over K are cut into the parts that warps compute: by K and the leaves of the tree alone, so that neither
// rows nor ranks change a sum.
#pragma once

#include <vector>

#include "runtime/backends/cuda/kernels/parameters.h"
#include "runtime/core/block_tree.h"
#include "runtime/core/int8_groups.h"

namespace lockstep::cuda {

/// A sum over all columns: kPlainParts parts of whole steps, added in ascending order.
std::vector<SumPart> plain_parts(int64_t columns);
/// The sums of a rank's leaves of `block` columns, one part each, merged along the tree. `columns` are the rank's.
std::vector<SumPart> block_parts(const BlockSplit& split, int rank, int64_t block, int64_t columns);

/// The same in groups of 8-bit integers.
std::vector<SumPart> plain_int8_parts(const ColumnGroups& groups);
std::vector<SumPart> block_int8_parts(const BlockSplit& split, int rank, const ColumnGroups& groups);

/// The sums over a rank's experts: a leaf is an expert, or `block` columns of every expert.
std::vector<ExpertPart> expert_parts(const BlockSplit& split, int rank, bool leaf_is_expert, int64_t experts,
                                     int64_t block, int64_t columns, bool has_bias);

/// Whether every rank has one root, and neighbours are added first, then neighbouring pairs, and so on.
bool is_even_tree(const TreeFinish& finish);

/// The most sums that are open after a part, at least 1.
int open_levels(const std::vector<SumPart>& parts);
/// Whether the sums that are open at a time fit the kernels' stack.
bool fits_stack(const std::vector<SumPart>& parts);

}  // namespace lockstep::cuda
