// A partition as a table.
#include <fmt/format.h>

#include <algorithm>

#include "shards/partition/partition.h"

namespace lockstep::partition {

using checkpoint::ModelSpec;

std::string to_text(const ModelSpec& spec, const Partition& partition) {
  double total = 0.0;
  for (int rank = 0; rank < partition.ranks(); ++rank) {
    total += static_cast<double>(weight_elements(spec, partition, rank));
  }
  std::string text = fmt::format("{:>4}  {:>12}  {:>10}  {:>15}  {:>17}  {:>6}\n", "rank", "query heads", "kv heads",
                                 spec.experts > 0 ? "expert columns" : "MLP columns", "vocabulary", "share");
  for (int rank = 0; rank < partition.ranks(); ++rank) {
    const RankPart& part = partition.parts[static_cast<size_t>(rank)];
    const double share = static_cast<double>(weight_elements(spec, partition, rank)) / total;
    text += fmt::format(
        "{:>4}  {:>12}  {:>10}  {:>15}  {:>17}  {:>5.1f}%{}\n", rank, to_string(part.heads.query),
        to_string(part.heads.key_value), to_string(part.mlp_columns), to_string(part.vocabulary), 100.0 * share,
        partition.expert_split == ExpertSplit::kWhole ? fmt::format("  experts {}", to_string(part.experts)) : "");
  }
  const auto add_ranges = [&](std::string_view name, const auto& range_of) {
    text += fmt::format("{}:", name);
    for (int rank = 0; rank < partition.ranks(); ++rank) text += fmt::format(" {}", to_string(range_of(rank)));
    text += "\n";
  };
  const auto part_of = [&](int rank) -> const RankPart& { return partition.parts[static_cast<size_t>(rank)]; };
  if (spec.global_heads) {
    add_ranges("kv heads of layers without a window", [&](int rank) { return part_of(rank).global.heads; });
  }
  if (partition.shared_expert.columns > 0) {
    add_ranges("shared expert", [&](int rank) { return partition.shared_expert.of(rank); });
  }
  if (partition.dense_layers.columns > 0) {
    add_ranges("MLP of the layers without experts", [&](int rank) { return partition.dense_layers.of(rank); });
  }
  if (!spec.delta_layers.empty()) {
    add_ranges("value heads of the delta rule", [&](int rank) { return part_of(rank).delta_heads.query; });
  }
  if (partition.gathers_key_values()) {
    int64_t most = 0;
    for (const RankPart& part : partition.parts) most = std::max(most, part.key_value_rows.size());
    text += fmt::format("key/value heads: {}; a rank computes at most {} of the {} rows of k and v\n",
                        name_of(partition.gqa), most, partition.parts.back().key_value_rows.end);
  }
  return text;
}

}  // namespace lockstep::partition
