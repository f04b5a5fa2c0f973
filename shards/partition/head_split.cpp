#include "shards/partition/head_split.h"

#include <algorithm>

namespace lockstep::partition {
namespace {

/// The part of `total` items that `rank` gets; the first `total % ranks` ranks get one more than the others.
Range even_part(int64_t total, int ranks, int rank) {
  const int64_t small = total / ranks;
  const int64_t larger_parts = total % ranks;
  const int64_t begin = rank * small + std::min<int64_t>(rank, larger_parts);
  return {begin, begin + small + (rank < larger_parts ? 1 : 0)};
}

Error heads_do_not_group(HeadCounts heads) {
  return {
      ErrorKind::kInvalidArgument,
      fmt::format("[shards/partition] cannot group attention heads: found {} query and {} key/value heads, expected "
                  "a multiple; check config.json",
                  heads.query, heads.key_value)};
}

Error impossible_degree(HeadCounts heads, int ranks) {
  return {ErrorKind::kUnsupported,
          fmt::format("[shards/partition] cannot divide attention heads: found {} ranks, expected 1 to {} (the query "
                      "heads); start that many ranks",
                      ranks, heads.query)};
}

}  // namespace

Result<std::vector<RankHeads>> split_heads(HeadCounts heads, int ranks) {
  if (heads.key_value < 1 || heads.query < 1 || heads.query % heads.key_value != 0) return heads_do_not_group(heads);
  if (ranks < 1 || ranks > heads.query) return impossible_degree(heads, ranks);
  const int64_t group = heads.query / heads.key_value;  // query heads that share one key/value head
  std::vector<RankHeads> split;
  split.reserve(static_cast<size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    const Range query = even_part(heads.query, ranks, rank);
    split.push_back({query, {query.begin / group, (query.end + group - 1) / group}});
  }
  return split;
}

std::vector<int64_t> head_map(HeadCounts heads, const RankHeads& own) {
  const int64_t group = heads.query / heads.key_value;
  std::vector<int64_t> map;
  for (int64_t head = own.query.begin; head < own.query.end; ++head) {
    map.push_back(head / group - own.key_value.begin);
  }
  return map;
}

}  // namespace lockstep::partition
