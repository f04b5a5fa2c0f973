// The slices of a model that each rank owns at a tensor-parallel degree: heads, MLP columns, vocabulary rows. Pure,
// printable and the same on every rank; computed from config.json alone, before a weight is read.
//
//   attention      whole query heads, as evenly as possible; their key/value heads follow (head_split.h)
//   MLP            blocks of columns; the boundary prefers places where the sum tree has few roots
//   experts        each is divided like an MLP, or whole experts go to ranks; an expert that all tokens share, and the
//                  layers without experts, are divided like an MLP
//   vocabulary     rows of the embedding and of the head; they make up what the heads leave uneven, so that the bytes
//                  of the ranks are equal in total (of experts those count that a token chooses)
//
//   SmolLM2-135M, 2 ranks     heads 0:5 | 5:9     columns 0:768 | 768:1536     vocabulary 0:22656 | 22656:49152
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/checkpoint/model_spec.h"
#include "runtime/core/block_tree.h"
#include "runtime/core/result.h"
#include "shards/partition/gqa_mode.h"
#include "shards/partition/head_split.h"
#include "shards/partition/options.h"

namespace lockstep::partition {

/// The keys and values of one rank.
struct KeyValuePart {
  Range heads;
  Range rows;  // of k's projection, and of v's after them, that it computes where they are gathered: heads or pieces

  friend bool operator==(const KeyValuePart&, const KeyValuePart&) = default;
};

/// The slices of one rank in every layer and of the vocabulary.
struct RankPart {
  RankHeads heads;    // that it attends with; over batch, all key/value heads (of its slots) and its query heads' share
  Range mlp_columns;  // of each expert, where there are experts; a multiple of them in wider layers
  Range vocabulary;
  Range experts;  // empty in a model without
  // The rows of k's projection, and of v's after them, that it computes where they are gathered: whole heads or pieces.
  Range key_value_rows = {};
  RankHeads delta_heads = {};  // value heads (as queries) and key heads of the delta rule, if the model has it
  KeyValuePart global = {};    // in the layers with the spec's global heads

  friend bool operator==(const RankPart&, const RankPart&) = default;
};

/// The columns of an MLP beside the experts, divided between ranks: a shared expert's, or those of dense layers.
struct ColumnSplit {
  int64_t columns = 0;  // 0: there is no such MLP
  int64_t block = 1;    // of a leaf; the last leaf may be narrower
  BlockSplit blocks;    // leaves: the sum order of its output

  Range of(int rank) const;

  friend bool operator==(const ColumnSplit&, const ColumnSplit&) = default;
};

/// A model divided between ranks.
struct Partition {
  std::vector<RankPart> parts;  // by rank
  BlockSplit attention_blocks;  // leaves are query heads: the sum order of the attention output
  BlockSplit delta_blocks;      // leaves are value heads of the delta rule: the sum order of its output
  BlockSplit mlp_blocks;        // leaves are blocks of `mlp_block` columns: the sum order of the MLP output
  int64_t mlp_block = 1;        // columns of a leaf; the last leaf may be narrower
  ExpertSplit expert_split = ExpertSplit::kColumns;
  BlockSplit expert_blocks;  // leaves are experts: the sum order of a mixture of whole experts
  ColumnSplit shared_expert;
  ColumnSplit dense_layers;
  Numerics numerics = Numerics::kInvariant;
  GqaMode gqa = GqaMode::kHeads;  // never auto

  int ranks() const { return static_cast<int>(parts.size()); }
  /// One leaf a rank: how the embedding's rows are summed (all but one are zeros), and every fast sum.
  BlockSplit rank_blocks() const;
  /// By rank: the columns that it computes of all layers' inputs (`layer_input_size`).
  std::vector<int64_t> layer_input_parts(const checkpoint::ModelSpec& spec) const;
  /// Whether k and v are computed in pieces that the ranks gather.
  bool gathers_key_values() const { return gqa == GqaMode::kAllGather || gqa == GqaMode::kBatch; }

  friend bool operator==(const Partition&, const Partition&) = default;
};

/// The keys and values of `part` in `layer`.
KeyValuePart key_values_of(const checkpoint::ModelSpec& spec, const RankPart& part, int64_t layer);

/// The columns of one leaf of the MLP's sum, or of an expert's: `intermediate_size` / 32 rounded up to a multiple of 16
/// (with weights in codes, to a multiple of 16 and of the groups, and at least four of these), or fewer (then 8, 4, 2,
/// 1) where that would leave a rank of the largest degree without a leaf. Where attention and MLP stand side by side,
/// as many columns as give one leaf per query head, if that can be: then one sum serves both.
int64_t mlp_block_columns(const checkpoint::ModelSpec& spec);

/// The same for the shared expert. One that is n times as wide as an expert has leaves n times as wide, as many as an
/// expert: then one sum serves both.
int64_t shared_block_columns(const checkpoint::ModelSpec& spec);

/// How experts are divided if `asked` is wanted: whole where the checkpoint rounds what they multiply, because a scale
/// of a row needs all its columns.
ExpertSplit expert_split_of(const checkpoint::ModelSpec& spec, ExpertSplit asked);

/// The degrees at which `spec` can be divided: 1 to the smallest of query heads, vocabulary rows and MLP blocks (or
/// experts, where they stay whole).
int largest_degree(const checkpoint::ModelSpec& spec, ExpertSplit experts = ExpertSplit::kColumns);

/// Divides `spec` over `ranks`; a `gqa` mode that cannot be had becomes heads or replicated (`choose_gqa`; a slot count
/// is not looked at). Fails with `kUnsupported` for a degree that cannot work, listing those that can, and
/// for whole experts in a model that has none.
Result<Partition> make_partition(const checkpoint::ModelSpec& spec, int ranks,
                                 ExpertSplit experts = ExpertSplit::kColumns, Numerics numerics = Numerics::kInvariant,
                                 GqaMode gqa = GqaMode::kAuto);

/// Weight elements held by `rank`; the partition balances them.
int64_t weight_elements(const checkpoint::ModelSpec& spec, const Partition& partition, int rank);

/// A table with a line per rank: heads, columns, vocabulary, share of the weights.
std::string to_text(const checkpoint::ModelSpec& spec, const Partition& partition);

}  // namespace lockstep::partition
