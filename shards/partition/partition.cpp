#include "shards/partition/partition.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace lockstep::partition {
namespace {

using checkpoint::ModelSpec;

constexpr int64_t kMostMlpBlocks = 32;  // each leaf costs its products about 100 cycles (docs/performance.md)
constexpr double kBoundaryPlay = 0.04;  // of a rank's share: how far an MLP boundary may move to save roots

/// Weight elements per unit, all layers together.
struct Costs {
  double query_head;
  double query_latent;          // of latent attention, on every rank
  double key_value_row;         // of k's projection or of v's
  double global_key_value_row;  // in the layers with global heads
  double delta_head;            // value head of the delta rule
  double delta_key_head;        // of it
  double mlp_column;            // of all experts
  double expert;
  double shared_column;  // of the expert that all tokens share
  double dense_column;   // of the layers without experts
  double vocabulary_row;
};

/// All experts, or those that a token chooses, because ranks should share a step's reads evenly.
enum class Experts { kAll, kChosen };

Costs costs_of(const ModelSpec& spec, Experts counted) {
  const auto hidden = static_cast<double>(spec.hidden_size);
  Costs costs{};
  double columns = 0.0;  // of all layers with the usual MLP or experts, a column of each
  for (int64_t layer = 0; layer < spec.layers; ++layer) {
    if (spec.mlp != checkpoint::Mlp::kExperts || spec.has_experts(layer)) {
      columns += static_cast<double>(spec.mlp_size(layer) / spec.intermediate_size);
    }
    if (spec.has_delta_rule(layer)) {
      costs.delta_head += (3.0 * static_cast<double>(spec.delta_rule.value_dim) + 2.0) * hidden;  // v, z, o; a, b
      costs.delta_key_head += 2.0 * static_cast<double>(spec.delta_rule.key_dim) * hidden;        // q and k
      continue;
    }
    costs.query_head += static_cast<double>(spec.query_head_elements(layer));
    if (spec.latent) costs.query_latent += static_cast<double>(spec.latent->query_rank) * hidden;
    if (!spec.shares_cache(layer)) {
      (spec.has_global_heads(layer) ? costs.global_key_value_row : costs.key_value_row) += hidden;
    }
  }
  const double matrices = spec.mlp == checkpoint::Mlp::kPlain ? 2.0 : 3.0;
  const double column = matrices * hidden * columns;
  const int64_t chosen = counted == Experts::kAll ? spec.experts : spec.experts_per_token;
  const auto experts = static_cast<double>(spec.experts > 0 ? chosen : 1);
  const auto embedding = static_cast<double>(spec.embedding_size);
  costs.mlp_column = column * experts;
  costs.expert = column * static_cast<double>(spec.intermediate_size) * experts /
                 static_cast<double>(std::max<int64_t>(spec.experts, 1));
  costs.shared_column = column;
  costs.dense_column = matrices * hidden * static_cast<double>(spec.dense_layers.size());
  costs.vocabulary_row = spec.tied_embeddings ? embedding : 2.0 * embedding;
  return costs;
}

/// The rows of k and v that a rank computes: pieces where they are gathered, else those of its heads.
double computed_rows(const checkpoint::HeadShape& shape, const KeyValuePart& part) {
  const int64_t of_head = shape.key_value_rows() / shape.key_value_heads;
  return static_cast<double>(part.rows.size() > 0 ? part.rows.size() : part.heads.size() * of_head);
}

double attention_elements(const ModelSpec& spec, const Costs& costs, const RankPart& part) {
  const KeyValuePart usual{part.heads.key_value, part.key_value_rows};
  double elements = costs.query_latent + costs.query_head * static_cast<double>(part.heads.query.size()) +
                    costs.key_value_row * computed_rows(spec.usual_heads(), usual);
  if (spec.global_heads) elements += costs.global_key_value_row * computed_rows(*spec.global_heads, part.global);
  return elements + costs.delta_head * static_cast<double>(part.delta_heads.query.size()) +
         costs.delta_key_head * static_cast<double>(part.delta_heads.key_value.size());
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

/// Elements of the shared expert and of the dense layers.
double beside_experts(const Costs& costs, const Partition& partition, int rank) {
  return costs.shared_column * static_cast<double>(partition.shared_expert.of(rank).size()) +
         costs.dense_column * static_cast<double>(partition.dense_layers.of(rank).size());
}

/// Columns of the widest group of codes of an MLP's second matrix; 0 without codes, or where a group is a whole row.
int64_t group_of_down(const ModelSpec& spec) {
  int64_t widest = 0;
  const auto add = [&widest](const std::optional<checkpoint::MatrixFormat>& format) {
    if (format) widest = std::max(widest, format->weights.group);
  };
  add(spec.formats.usual);
  for (const checkpoint::FormatException& exception : spec.formats.exceptions) {
    if (exception.tensor.ends_with(".down_proj.weight")) add(exception.format);
  }
  constexpr int64_t kWidest = 1024;  // a wider one is cut into leaves
  return widest <= kWidest ? widest : 0;
}

/// The columns of a leaf of an MLP of `columns`; see mlp_block_columns.
int64_t block_columns(const ModelSpec& spec, int64_t columns) {
  // Groups of codes lie within leaves: room for four if possible.
  const int64_t group = group_of_down(spec), unit = std::lcm(int64_t{16}, std::max<int64_t>(group, 1));
  const int64_t least = std::max(count_blocks(columns, kMostMlpBlocks), 4 * group);
  int64_t block = count_blocks(least, unit) * unit;
  const auto has_too_few = [&] { return count_blocks(columns, block) < spec.query_heads; };
  while (block > unit && has_too_few()) block -= unit;
  while (block > 1 && has_too_few()) block = block > 16 ? block - 16 : block / 2;
  return block;
}

/// The difference between each rank's heads and an equal share of the weights.
std::vector<double> lacks_after_attention(const ModelSpec& spec, const std::vector<RankPart>& parts) {
  const Costs costs = costs_of(spec, Experts::kChosen);
  double total = costs.mlp_column * static_cast<double>(spec.intermediate_size) +
                 costs.shared_column * static_cast<double>(spec.shared_expert_size) +
                 costs.dense_column * static_cast<double>(spec.dense_size) +
                 costs.vocabulary_row * static_cast<double>(spec.vocabulary);
  for (const RankPart& part : parts) total += attention_elements(spec, costs, part);
  std::vector<double> lacks;
  for (const RankPart& part : parts) {
    lacks.push_back(std::max(0.0, total / static_cast<double>(parts.size()) - attention_elements(spec, costs, part)));
  }
  return lacks;
}

/// By rank: the key/value heads of one shape, and the rows of gathered k and v, as evenly as possible.
Result<std::vector<KeyValuePart>> divide_key_values(const ModelSpec& spec, const checkpoint::HeadShape& shape,
                                                    int ranks, const Partition& partition) {
  LOCKSTEP_TRY(const std::vector<RankHeads> heads, split_heads({spec.query_heads, shape.key_value_heads}, ranks));
  const int64_t rows = shape.key_value_rows();
  std::vector<KeyValuePart> parts;
  for (int rank = 0; rank < ranks; ++rank) {
    KeyValuePart part{heads[static_cast<size_t>(rank)].key_value, {}};
    if (partition.gathers_key_values()) part.rows = {rows * rank / ranks, rows * (rank + 1) / ranks};
    if (partition.gqa == GqaMode::kBatch) part.heads = {0, shape.key_value_heads};
    parts.push_back(part);
  }
  return parts;
}

/// Gives every rank its heads.
Result<void> divide_attention(const ModelSpec& spec, int ranks, GqaMode gqa, Partition& partition) {
  LOCKSTEP_TRY(const std::vector<RankHeads> heads, split_heads({spec.query_heads, spec.key_value_heads}, ranks));
  LOCKSTEP_TRY(const GqaChoice choice, choose_gqa(gqa, spec, ranks, std::nullopt));
  partition.gqa = choice.mode;
  LOCKSTEP_TRY(const std::vector<KeyValuePart> own, divide_key_values(spec, spec.usual_heads(), ranks, partition));
  std::vector<KeyValuePart> global(own.size());
  if (spec.global_heads) {
    LOCKSTEP_TRY(global, divide_key_values(spec, *spec.global_heads, ranks, partition));
  }
  partition.attention_blocks.bounds = {0};
  for (size_t rank = 0; rank < own.size(); ++rank) {
    const RankHeads of_rank{heads[rank].query, own[rank].heads};
    partition.attention_blocks.bounds.push_back(of_rank.query.end);
    partition.parts.push_back({.heads = of_rank,
                               .mlp_columns = {},
                               .vocabulary = {},
                               .experts = {0, spec.experts},
                               .key_value_rows = own[rank].rows,
                               .global = global[rank]});
  }
  return ok();
}

/// Gives every rank its heads of the delta rule, as evenly as possible.
Result<void> divide_delta_heads(const ModelSpec& spec, int ranks, Partition& partition) {
  if (spec.delta_layers.empty()) return ok();
  const HeadCounts counts{spec.delta_rule.value_heads, spec.delta_rule.key_heads};
  LOCKSTEP_TRY(const std::vector<RankHeads> heads, split_heads(counts, ranks));
  partition.delta_blocks.bounds = {0};
  for (size_t rank = 0; rank < heads.size(); ++rank) {
    partition.parts[rank].delta_heads = heads[rank];
    partition.delta_blocks.bounds.push_back(heads[rank].query.end);
  }
  return ok();
}

/// The most that a boundary moves, of `units` for each of `ranks`.
double play_of(int64_t units, size_t ranks) {
  return kBoundaryPlay * static_cast<double>(units) / static_cast<double>(ranks);
}

/// Divides `columns` by what the ranks lack, in leaves of `block`; with the bounds of `like`, if it has as many leaves.
ColumnSplit divide_columns(int64_t columns, int64_t block, const std::vector<double>& lacks, const BlockSplit& like) {
  if (columns == 0) return {};
  const int64_t blocks = count_blocks(columns, block);
  const bool is_alike = !like.bounds.empty() && like.leaves() == blocks;
  return {columns, block, is_alike ? like : BlockSplit{boundaries(lacks, blocks, play_of(blocks, lacks.size()))}};
}

/// Gives every rank its columns (or experts) and subtracts them from its difference.
void divide_mlp(const ModelSpec& spec, std::vector<double>& lacks, Partition& partition) {
  const Costs costs = costs_of(spec, Experts::kChosen);
  const bool whole_experts = partition.expert_split == ExpertSplit::kWhole;
  partition.mlp_block = mlp_block_columns(spec);
  const int64_t blocks = count_blocks(spec.intermediate_size, partition.mlp_block);
  const int64_t units = whole_experts ? spec.experts : blocks;
  const bool follows_heads = spec.parallel_residual && blocks == spec.query_heads;
  const std::vector<int64_t> bounds =
      follows_heads ? partition.attention_blocks.bounds : boundaries(lacks, units, play_of(units, lacks.size()));
  (whole_experts ? partition.expert_blocks : partition.mlp_blocks).bounds = bounds;
  partition.shared_expert =
      divide_columns(spec.shared_expert_size, shared_block_columns(spec), lacks, partition.mlp_blocks);
  partition.dense_layers = divide_columns(spec.dense_size, block_columns(spec, spec.dense_size), lacks, {});
  for (size_t rank = 0; rank < lacks.size(); ++rank) {
    RankPart& part = partition.parts[rank];
    const Range own{bounds[rank], bounds[rank + 1]};
    if (whole_experts) {
      part.experts = own;
      part.mlp_columns = {0, spec.intermediate_size};
    } else {
      part.mlp_columns = {own.begin * partition.mlp_block,
                          std::min(own.end * partition.mlp_block, spec.intermediate_size)};
    }
    const double taken = whole_experts ? costs.expert * static_cast<double>(own.size())
                                       : costs.mlp_column * static_cast<double>(part.mlp_columns.size());
    lacks[rank] = std::max(0.0, lacks[rank] - taken - beside_experts(costs, partition, static_cast<int>(rank)));
  }
}

}  // namespace

std::string_view name_of(Numerics numerics) { return numerics == Numerics::kInvariant ? "invariant" : "fast"; }

Range ColumnSplit::of(int rank) const {
  if (columns == 0) return {};
  const Range leaves = blocks.range_of(rank);
  return {std::min(leaves.begin * block, columns), std::min(leaves.end * block, columns)};
}

KeyValuePart key_values_of(const ModelSpec& spec, const RankPart& part, int64_t layer) {
  return spec.has_global_heads(layer) ? part.global : KeyValuePart{part.heads.key_value, part.key_value_rows};
}

std::vector<int64_t> Partition::layer_input_parts(const ModelSpec& spec) const {
  const int64_t columns = spec.layers * spec.layer_input_size;
  std::vector<int64_t> sizes;
  for (int64_t rank = 0; rank < ranks(); ++rank) {
    sizes.push_back(columns * (rank + 1) / ranks() - columns * rank / ranks());
  }
  return sizes;
}

BlockSplit Partition::rank_blocks() const {
  BlockSplit split;
  split.bounds.resize(parts.size() + 1);
  std::iota(split.bounds.begin(), split.bounds.end(), 0);
  return split;
}

int64_t mlp_block_columns(const ModelSpec& spec) {
  const int64_t by_head = count_blocks(spec.intermediate_size, spec.query_heads);
  if (spec.parallel_residual && count_blocks(spec.intermediate_size, by_head) == spec.query_heads) return by_head;
  return block_columns(spec, spec.intermediate_size);
}

int64_t shared_block_columns(const ModelSpec& spec) {
  if (spec.shared_expert_size == 0) return 1;
  const bool is_multiple = spec.shared_expert_size % spec.intermediate_size == 0;
  return is_multiple ? mlp_block_columns(spec) * (spec.shared_expert_size / spec.intermediate_size)
                     : block_columns(spec, spec.shared_expert_size);
}

ExpertSplit expert_split_of(const ModelSpec& spec, ExpertSplit asked) {
  return spec.experts > 0 && spec.formats.round_inputs() ? ExpertSplit::kWhole : asked;
}

int largest_degree(const ModelSpec& spec, ExpertSplit asked) {
  const ExpertSplit experts = expert_split_of(spec, asked);
  const int64_t blocks =
      experts == ExpertSplit::kWhole ? spec.experts : count_blocks(spec.intermediate_size, mlp_block_columns(spec));
  int64_t most = std::min({spec.query_heads, blocks, spec.vocabulary});
  if (!spec.delta_layers.empty()) most = std::min(most, spec.delta_rule.value_heads);
  if (spec.shared_expert_size > 0) {
    most = std::min(most, count_blocks(spec.shared_expert_size, shared_block_columns(spec)));
  }
  if (spec.dense_size > 0) most = std::min(most, count_blocks(spec.dense_size, block_columns(spec, spec.dense_size)));
  if (spec.layer_input_size > 0) most = std::min(most, spec.layers * spec.layer_input_size);
  return static_cast<int>(most);
}

Result<Partition> make_partition(const ModelSpec& spec, int ranks, ExpertSplit asked, Numerics numerics, GqaMode gqa) {
  const ExpertSplit experts = expert_split_of(spec, asked);
  if (experts == ExpertSplit::kWhole && spec.experts == 0) {
    return Error{ErrorKind::kUnsupported,
                 fmt::format("[shards/partition] cannot divide the model by expert: found model_type \"{}\" without "
                             "experts, expected a mixture of experts; leave out --expert-parallel",
                             spec.model_type)};
  }
  const int largest = largest_degree(spec, experts);
  if (ranks < 1 || ranks > largest) {
    return Error{
        ErrorKind::kUnsupported,
        fmt::format("[shards/partition] cannot divide the model: found {} ranks, expected 1 to {} ({} query "
                    "heads, {}{}, {} vocabulary rows); start that many ranks",
                    ranks, largest, spec.query_heads,
                    spec.delta_layers.empty() ? "" : fmt::format("{} value heads, ", spec.delta_rule.value_heads),
                    experts == ExpertSplit::kWhole ? fmt::format("{} experts", spec.experts)
                                                   : fmt::format("{} MLP columns", spec.intermediate_size),
                    spec.vocabulary)};
  }
  Partition partition;
  partition.expert_split = experts;
  partition.numerics = numerics;
  LOCKSTEP_TRY_VOID(divide_attention(spec, ranks, gqa, partition));
  LOCKSTEP_TRY_VOID(divide_delta_heads(spec, ranks, partition));
  std::vector<double> left = lacks_after_attention(spec, partition.parts);
  divide_mlp(spec, left, partition);
  const std::vector<int64_t> rows = boundaries(left, spec.vocabulary, 16.0);
  for (size_t rank = 0; rank < partition.parts.size(); ++rank) {
    partition.parts[rank].vocabulary = {rows[rank], rows[rank + 1]};
  }
  return partition;
}

int64_t weight_elements(const ModelSpec& spec, const Partition& partition, int rank) {
  const Costs costs = costs_of(spec, Experts::kAll);
  const RankPart& part = partition.parts.at(static_cast<size_t>(rank));
  const double mlp = partition.expert_split == ExpertSplit::kWhole
                         ? costs.expert * static_cast<double>(part.experts.size())
                         : costs.mlp_column * static_cast<double>(part.mlp_columns.size());
  const auto inputs = static_cast<double>(partition.layer_input_parts(spec)[static_cast<size_t>(rank)]);
  return std::llround(attention_elements(spec, costs, part) + mlp + beside_experts(costs, partition, rank) +
                      costs.vocabulary_row * static_cast<double>(part.vocabulary.size()) +
                      inputs * static_cast<double>(spec.layer_input_vocabulary + spec.hidden_size));
}

}  // namespace lockstep::partition
