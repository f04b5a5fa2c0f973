#include "shards/partition/partition.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace lockstep::partition {
namespace {

using checkpoint::ModelSpec;

constexpr int64_t kMostMlpBlocks = 128;  // bounds the tree's depth, and with it the roots of an uneven boundary
constexpr double kBoundaryPlay = 0.04;   // of a rank's share: how far an MLP boundary may move to save roots

/// Weight elements per unit, all layers together.
struct Costs {
  double query_head;
  double key_value_head;
  double mlp_column;
  double vocabulary_row;
};

Costs costs_of(const ModelSpec& spec) {
  const auto hidden = static_cast<double>(spec.hidden_size);
  const auto layers = static_cast<double>(spec.layers);
  const double head = 2.0 * static_cast<double>(spec.head_dim) * hidden * layers;  // q and o, or k and v
  return {head, head, 3.0 * hidden * layers, spec.tied_embeddings ? hidden : 2.0 * hidden};
}

double attention_elements(const Costs& costs, const RankHeads& heads) {
  return costs.query_head * static_cast<double>(heads.query.size()) +
         costs.key_value_head * static_cast<double>(heads.key_value.size());
}

/// The power of two that divides `n`; boundaries with a large one split the sum tree into few roots.
int64_t alignment_of(int64_t n) { return n & -n; }

/// The leaf near `ideal` where a boundary costs the fewest roots, between `least` and `most`.
int64_t cheap_boundary(double ideal, double play, int64_t least, int64_t most) {
  int64_t best = std::clamp<int64_t>(std::llround(ideal), least, most);
  const auto first = std::max<int64_t>(least, static_cast<int64_t>(std::ceil(ideal - play)));
  const auto last = std::min<int64_t>(most, static_cast<int64_t>(std::floor(ideal + play)));
  for (int64_t leaf = first; leaf <= last; ++leaf) {
    const bool simpler = alignment_of(leaf) > alignment_of(best);
    const bool as_simple_and_nearer =
        alignment_of(leaf) == alignment_of(best) && std::abs(leaf - ideal) < std::abs(best - ideal);
    if (simpler || as_simple_and_nearer) best = leaf;
  }
  return best;
}

/// Boundaries that give rank r about `shares[r]` of `total` units and at least one, moved by at most `play` units.
std::vector<int64_t> boundaries(const std::vector<double>& shares, int64_t total, double play) {
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  const auto ranks = static_cast<int64_t>(shares.size());
  std::vector<int64_t> bounds = {0};
  double cumulative = 0.0;
  for (int64_t rank = 0; rank + 1 < ranks; ++rank) {
    cumulative += shares[static_cast<size_t>(rank)];
    const double ideal = sum > 0.0 ? cumulative / sum * static_cast<double>(total) : 0.0;
    const int64_t most = total - (ranks - rank - 1);  // leave one unit to each rank that follows
    bounds.push_back(cheap_boundary(ideal, play, bounds.back() + 1, most));
  }
  bounds.push_back(total);
  return bounds;
}

int64_t count_blocks(int64_t columns, int64_t block) { return (columns + block - 1) / block; }

}  // namespace

BlockSplit Partition::embedding_blocks() const {
  BlockSplit split;
  split.bounds.resize(parts.size() + 1);
  std::iota(split.bounds.begin(), split.bounds.end(), 0);
  return split;
}

int64_t mlp_block_columns(const ModelSpec& spec) {
  const int64_t wide = count_blocks(count_blocks(spec.intermediate_size, kMostMlpBlocks), 16) * 16;
  for (int64_t block : {wide, int64_t{16}, int64_t{8}, int64_t{4}, int64_t{2}}) {
    if (count_blocks(spec.intermediate_size, block) >= spec.query_heads) return block;
  }
  return 1;
}

int largest_degree(const ModelSpec& spec) {
  const int64_t blocks = count_blocks(spec.intermediate_size, mlp_block_columns(spec));
  return static_cast<int>(std::min({spec.query_heads, blocks, spec.vocabulary}));
}

Result<Partition> make_partition(const ModelSpec& spec, int ranks) {
  const int largest = largest_degree(spec);
  if (ranks < 1 || ranks > largest) {
    return Error{ErrorKind::kUnsupported,
                 fmt::format("[shards/partition] cannot divide the model: found {} ranks, expected 1 to {} ({} query "
                             "heads, {} MLP columns, {} vocabulary rows); start that many ranks",
                             ranks, largest, spec.query_heads, spec.intermediate_size, spec.vocabulary)};
  }
  LOCKSTEP_TRY(const std::vector<RankHeads> heads, split_heads({spec.query_heads, spec.key_value_heads}, ranks));

  const Costs costs = costs_of(spec);
  double total = costs.mlp_column * static_cast<double>(spec.intermediate_size) +
                 costs.vocabulary_row * static_cast<double>(spec.vocabulary);
  for (const RankHeads& h : heads) total += attention_elements(costs, h);
  const double target = total / ranks;

  std::vector<double> left;  // what each rank still lacks to its equal share
  for (const RankHeads& h : heads) left.push_back(std::max(0.0, target - attention_elements(costs, h)));

  Partition partition;
  partition.mlp_block = mlp_block_columns(spec);
  const int64_t blocks = count_blocks(spec.intermediate_size, partition.mlp_block);
  partition.mlp_blocks.bounds = boundaries(left, blocks, kBoundaryPlay * static_cast<double>(blocks) / ranks);
  partition.attention_blocks.bounds = {0};
  for (int rank = 0; rank < ranks; ++rank) {
    const Range leaves = partition.mlp_blocks.range_of(rank);
    const Range columns{leaves.begin * partition.mlp_block,
                        std::min(leaves.end * partition.mlp_block, spec.intermediate_size)};
    partition.parts.push_back({heads[static_cast<size_t>(rank)], columns, {}});
    partition.attention_blocks.bounds.push_back(heads[static_cast<size_t>(rank)].query.end);
    double& lacks = left[static_cast<size_t>(rank)];
    lacks = std::max(0.0, lacks - costs.mlp_column * static_cast<double>(columns.size()));
  }

  const std::vector<int64_t> rows = boundaries(left, spec.vocabulary, 16.0);
  for (size_t rank = 0; rank < partition.parts.size(); ++rank) {
    partition.parts[rank].vocabulary = {rows[rank], rows[rank + 1]};
  }
  return partition;
}

int64_t weight_elements(const ModelSpec& spec, const Partition& partition, int rank) {
  const Costs costs = costs_of(spec);
  const RankPart& part = partition.parts.at(static_cast<size_t>(rank));
  return std::llround(attention_elements(costs, part.heads) +
                      costs.mlp_column * static_cast<double>(part.mlp_columns.size()) +
                      costs.vocabulary_row * static_cast<double>(part.vocabulary.size()));
}

std::string to_text(const ModelSpec& spec, const Partition& partition) {
  double total = 0.0;
  for (int rank = 0; rank < partition.ranks(); ++rank) {
    total += static_cast<double>(weight_elements(spec, partition, rank));
  }
  std::string text = fmt::format("{:>4}  {:>12}  {:>10}  {:>15}  {:>17}  {:>6}\n", "rank", "query heads", "kv heads",
                                 "MLP columns", "vocabulary", "share");
  for (int rank = 0; rank < partition.ranks(); ++rank) {
    const RankPart& part = partition.parts[static_cast<size_t>(rank)];
    const double share = static_cast<double>(weight_elements(spec, partition, rank)) / total;
    text += fmt::format("{:>4}  {:>12}  {:>10}  {:>15}  {:>17}  {:>5.1f}%\n", rank, to_string(part.heads.query),
                        to_string(part.heads.key_value), to_string(part.mlp_columns), to_string(part.vocabulary),
                        100.0 * share);
  }
  return text;
}

}  // namespace lockstep::partition
