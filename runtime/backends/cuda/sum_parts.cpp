#include "runtime/backends/cuda/sum_parts.h"

#include <algorithm>
#include <utility>

namespace lockstep::cuda {
namespace {

int64_t steps_of(int64_t columns) { return (columns + kStepColumns - 1) / kStepColumns; }

/// Steps [begin, end) of a sum whose columns start at `column`.
SumPart part_of(int64_t begin, int64_t end, int64_t column, int64_t end_column) {
  return {.first_step = static_cast<int32_t>(begin),
          .steps = static_cast<int32_t>(end - begin),
          .first_column = static_cast<int32_t>(column),
          .end_column = static_cast<int32_t>(end_column),
          .merges = 0,
          .root = -1};
}

SumPart joined(SumPart part, const TreeLeaf& leaf) {
  part.merges = leaf.merges;
  part.root = leaf.root;
  return part;
}

/// The groups of a rank's leaf.
SumPart groups_of_leaf(const ColumnGroups& groups, int64_t leaf) {
  const int64_t begin = std::min(leaf * groups.per_leaf(), groups.count());
  return part_of(begin, std::min(begin + groups.per_leaf(), groups.count()), 0, groups.columns);
}

/// Equal shares of `steps`, of which the first starts a sum and the others join it.
std::vector<SumPart> in_shares(int64_t steps, int64_t columns) {
  std::vector<SumPart> parts;
  for (int64_t i = 0; i < kPlainParts; ++i) {
    const int64_t begin = steps * i / kPlainParts;
    SumPart part = part_of(begin, steps * (i + 1) / kPlainParts, begin * kStepColumns, columns);
    part.merges = i > 0 ? 1 : 0;
    part.root = i + 1 == kPlainParts ? 0 : -1;
    parts.push_back(part);
  }
  return parts;
}

}  // namespace

std::vector<SumPart> plain_parts(int64_t columns) { return in_shares(steps_of(columns), columns); }

std::vector<SumPart> block_parts(const BlockSplit& split, int rank, int64_t block, int64_t columns) {
  std::vector<SumPart> parts;
  for (const TreeLeaf& leaf : leaves_of(split, rank)) {
    const int64_t own = leaf.number - split.range_of(rank).begin;
    const int64_t begin = std::min(own * block, columns), end = std::min(begin + block, columns);
    const int64_t first = own * steps_of(block);
    parts.push_back(joined(part_of(first, first + steps_of(end - begin), begin, end), leaf));
  }
  return parts;
}

std::vector<SumPart> plain_group_parts(const ColumnGroups& groups) { return in_shares(groups.count(), groups.columns); }

std::vector<SumPart> block_group_parts(const BlockSplit& split, int rank, const ColumnGroups& groups) {
  std::vector<SumPart> parts;
  for (const TreeLeaf& leaf : leaves_of(split, rank)) {
    parts.push_back(joined(groups_of_leaf(groups, leaf.number - split.range_of(rank).begin), leaf));
  }
  return parts;
}

std::vector<ExpertPart> expert_parts(const BlockSplit& split, int rank, bool leaf_is_expert, int64_t experts,
                                     const ExpertColumns& own, bool has_bias) {
  const auto part_of_leaf = [&](int64_t number, int64_t block) {
    if (own.groups) return groups_of_leaf(*own.groups, number);
    const int64_t begin = std::min(number * block, own.columns), end = std::min(begin + block, own.columns);
    const int64_t first = number * steps_of(block);
    return part_of(first, first + steps_of(end - begin), begin, end);
  };
  std::vector<ExpertPart> parts;
  for (const TreeLeaf& leaf : leaves_of(split, rank)) {
    const int64_t number = leaf.number - split.range_of(rank).begin;
    if (leaf_is_expert) {
      parts.push_back({.sum = joined(part_of_leaf(0, own.columns), leaf),
                       .expert = static_cast<int32_t>(number),
                       .has_bias = has_bias,
                       .ends = 1});
      continue;
    }
    const SumPart sum = joined(part_of_leaf(number, own.block), leaf);
    for (int64_t expert = 0; expert < experts; ++expert) {
      parts.push_back({.sum = sum,
                       .expert = static_cast<int32_t>(expert),
                       .has_bias = has_bias && leaf.number == 0,
                       .ends = expert + 1 == experts});
    }
  }
  return parts;
}

bool is_even_tree(const TreeFinish& finish) {
  const auto ranks = static_cast<int>(finish.first_root.size()) - 1;
  for (int rank = 0; rank <= ranks; ++rank) {
    if (finish.first_root[static_cast<size_t>(rank)] != rank) return false;
  }
  std::vector<std::pair<int, int>> even, found;
  for (int apart = 1; apart < ranks; apart *= 2) {
    for (int rank = 0; rank + apart < ranks; rank += 2 * apart) even.emplace_back(rank, rank + apart);
  }
  for (const TreeFinish::Step& step : finish.steps) found.emplace_back(step.dst, step.src);
  std::ranges::sort(even);  // by the left operand, which takes nearer ones first in both
  std::ranges::sort(found);
  return even == found && finish.result == 0;
}

int open_levels(const std::vector<SumPart>& parts) {
  int height = 0, highest = 1;
  for (const SumPart& part : parts) {
    height = part.root >= 0 ? 0 : height + 1 - part.merges;
    highest = std::max(highest, height);
  }
  return highest;
}

bool fits_stack(const std::vector<SumPart>& parts) {
  int height = 0, highest = 0;
  for (const SumPart& part : parts) {
    highest = std::max(highest, ++height);
    height -= part.merges;
    if (part.root >= 0) height = 0;
  }
  return highest <= kMostLevels;
}

}  // namespace lockstep::cuda
