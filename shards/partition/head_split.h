// How attention heads are divided between the ranks of a tensor-parallel group.
//
// Query heads are spread as evenly as whole heads allow. The key/value heads of a rank follow from its query heads, so
// two neighbouring ranks may hold the same key/value head. That one rule covers every case:
//
//   32 query / 8 kv heads, 4 ranks    q 0-7 | 8-15 | 16-23 | 24-31     kv 0-1 | 2-3 | 4-5 | 6-7
//    9 query / 3 kv heads, 2 ranks    q 0-4 | 5-8                      kv 0-1 | 1-2               (kv 1 held twice)
//    8 query / 2 kv heads, 4 ranks    q 0-1 | 2-3 | 4-5 | 6-7          kv 0 | 0 | 1 | 1           (replication)
#pragma once

#include <vector>

#include "runtime/core/block_tree.h"
#include "runtime/core/result.h"

namespace lockstep::partition {

/// The attention heads of one layer, all ranks together.
struct HeadCounts {
  int64_t query = 0;
  int64_t key_value = 0;  // grouped-query attention: divides `query`
};

/// The heads that one rank computes with.
struct RankHeads {
  Range query;
  Range key_value;

  friend bool operator==(const RankHeads&, const RankHeads&) = default;
};

/// Divides `heads` over `ranks` (at least 1); element r is what rank r computes with. Pure; the same on every rank.
///
/// Fails with `kInvalidArgument` when the key/value heads do not divide the query heads, and with `kUnsupported` when
/// there are more ranks than query heads; the message says which degrees work.
Result<std::vector<RankHeads>> split_heads(HeadCounts heads, int ranks);

/// By query head of `own`: its key/value head, counted from the first of `own`.
std::vector<int64_t> head_map(HeadCounts heads, const RankHeads& own);

}  // namespace lockstep::partition
