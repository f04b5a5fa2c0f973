// How sums over K are cut into the parts that warps compute: by K and the leaves of the tree alone, so that neither
// rows nor ranks change a sum.
#pragma once

#include <optional>
#include <vector>

#include "runtime/backends/cuda/kernels/parameters.h"
#include "runtime/core/block_tree.h"
#include "runtime/core/column_groups.h"

namespace lockstep::cuda {

/// A sum over all columns: kPlainParts parts of whole steps, added in ascending order.
std::vector<SumPart> plain_parts(int64_t columns);
/// The sums of a rank's leaves of `block` columns, one part each, merged along the tree. `columns` are the rank's.
std::vector<SumPart> block_parts(const BlockSplit& split, int rank, int64_t block, int64_t columns);

/// The same of weights in codes: steps are groups.
std::vector<SumPart> plain_group_parts(const ColumnGroups& groups);
std::vector<SumPart> block_group_parts(const BlockSplit& split, int rank, const ColumnGroups& groups);

/// The columns of each expert, and the leaves of its sum.
struct ExpertColumns {
  int64_t columns = 0;
  int64_t block = 1;                   // of a leaf
  std::optional<ColumnGroups> groups;  // of weights in codes
};
/// The sums over a rank's experts: a leaf is an expert, or a block of columns of every expert.
std::vector<ExpertPart> expert_parts(const BlockSplit& split, int rank, bool leaf_is_expert, int64_t experts,
                                     const ExpertColumns& own, bool has_bias);

/// Whether every rank has one root, and neighbours are added first, then neighbouring pairs, and so on.
bool is_even_tree(const TreeFinish& finish);

/// The most sums that are open after a part, at least 1.
int open_levels(const std::vector<SumPart>& parts);
/// Whether the sums that are open at a time fit the kernels' stack.
bool fits_stack(const std::vector<SumPart>& parts);

}  // namespace lockstep::cuda
