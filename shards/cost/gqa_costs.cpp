#include "shards/cost/gqa_costs.h"

#include <fmt/format.h>

#include <algorithm>

#include "shards/cost/group_work.h"

namespace lockstep::cost {
namespace {

/// A rank's contribution to the collectives of a step with `rows` rows.
Bytes sent_in(const StepWork& work, int64_t rows) {
  double bytes = 0.0;
  for (const Collective& collective : work.collectives) {
    bytes += collective.row_bytes * static_cast<double>(rows) + collective.step_bytes;
  }
  return Bytes(static_cast<int64_t>(bytes + 0.5));
}

}  // namespace

Result<std::vector<GqaCost>> gqa_costs(const checkpoint::ModelSpec& spec, const partition::Partition& like,
                                       const shards::ShardOptions& options) {
  std::vector<GqaCost> costs;
  for (const partition::GqaMode wanted : partition::kGqaModes) {
    LOCKSTEP_TRY(const partition::GqaChoice choice, partition::choose_gqa(wanted, spec, like.ranks(), options.slots));
    LOCKSTEP_TRY(const partition::Partition partition,
                 partition::make_partition(spec, like.ranks(), like.expert_split, like.numerics, choice.mode));
    LOCKSTEP_TRY(const GroupWork group, group_work(spec, partition, options));
    GqaCost cost{.wanted = wanted, .mode = choice.mode, .why_not = choice.why_not};
    cost.slots = choice.mode == partition::GqaMode::kBatch ? options.slots / like.ranks() : options.slots;
    for (const RankWork& rank : group.ranks) {
      cost.weights = std::max(cost.weights, rank.memory.weights);
      cost.cache = std::max(cost.cache, rank.memory.cache);
      cost.decode_sent = std::max(cost.decode_sent, sent_in(rank.decode, options.slots));
      cost.prefill_sent = std::max(cost.prefill_sent, sent_in(rank.prefill, options.chunk));
    }
    cost.slot_cache = Bytes(cost.cache.value / cost.slots);
    cost.collectives = static_cast<int64_t>(group.ranks.front().decode.collectives.size());
    costs.push_back(std::move(cost));
  }
  return costs;
}

std::string to_text(const std::vector<GqaCost>& costs) {
  std::string text =
      fmt::format("{:<10}  {:<10}  {:>11}  {:>11}  {:>9}  {:>11}  {:>11}  {:>11}  {:>11}\n", "--gqa", "runs as",
                  "weights", "KV", "of slots", "KV a slot", "collectives", "sent:decode", "prefill");
  for (const GqaCost& cost : costs) {
    text += fmt::format("{:<10}  {:<10}  {:>11}  {:>11}  {:>9}  {:>11}  {:>11}  {:>11}  {:>11}\n", name_of(cost.wanted),
                        name_of(cost.mode), to_string(cost.weights), to_string(cost.cache), cost.slots,
                        to_string(cost.slot_cache), cost.collectives, to_string(cost.decode_sent),
                        to_string(cost.prefill_sent));
  }
  for (const GqaCost& cost : costs) {
    if (!cost.why_not.empty()) text += fmt::format("{}: {}\n", name_of(cost.wanted), cost.why_not);
  }
  return text;
}

}  // namespace lockstep::cost
