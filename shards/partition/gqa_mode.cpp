#include "shards/partition/gqa_mode.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace lockstep::partition {
namespace {

/// The number of key/value heads that several ranks need for their query heads.
int64_t count_shared(const std::vector<RankHeads>& split, int64_t key_value_heads) {
  std::vector<int> holders(static_cast<size_t>(key_value_heads), 0);
  for (const RankHeads& rank : split) {
    for (int64_t head = rank.key_value.begin; head < rank.key_value.end; ++head) ++holders[static_cast<size_t>(head)];
  }
  return std::ranges::count_if(holders, [](int ranks) { return ranks > 1; });
}

/// How many key/value heads several ranks need, of all heads of a layer.
struct SharedHeads {
  int64_t heads = 0;
  int64_t of = 0;
};

/// In the layers that share most.
Result<SharedHeads> shared_heads(const checkpoint::ModelSpec& spec, int ranks) {
  SharedHeads most;
  for (const checkpoint::HeadShape& shape : spec.head_shapes()) {
    LOCKSTEP_TRY(const std::vector<RankHeads> split, split_heads({spec.query_heads, shape.key_value_heads}, ranks));
    const int64_t shared = count_shared(split, shape.key_value_heads);
    if (most.of == 0 || shared > most.heads) most = {shared, shape.key_value_heads};
  }
  return most;
}

/// Each rank gathers at least one row.
std::string why_not_gathered(const checkpoint::ModelSpec& spec, int ranks) {
  if (spec.latent) return "found latent attention, whose one key head every rank computes";
  for (const checkpoint::HeadShape& shape : spec.head_shapes()) {
    if (shape.key_value_rows() >= ranks) continue;
    return fmt::format("found {} rows of k and v, expected at least {}, one a rank", shape.key_value_rows(), ranks);
  }
  return "";
}

std::string why_not_batch(int ranks, std::optional<int64_t> slots) {
  if (ranks == 1) return "one rank holds every sequence anyway";
  if (!slots || *slots % ranks == 0) return "";
  return fmt::format("found {} slots, expected a multiple of {} ranks (--batch-size)", *slots, ranks);
}

std::string why_not(GqaMode wanted, const checkpoint::ModelSpec& spec, int ranks, SharedHeads shared,
                    std::optional<int64_t> slots) {
  switch (wanted) {
    case GqaMode::kHeads:
      return shared.heads == 0
                 ? ""
                 : fmt::format("found {} of {} key/value heads that several of {} ranks need, expected none",
                               shared.heads, shared.of, ranks);
    case GqaMode::kAllGather:
      return shared.heads > 0 ? why_not_gathered(spec, ranks) : "no two ranks need the same key/value head";
    case GqaMode::kBatch: {
      if (!spec.delta_layers.empty()) return "found recurrent layers, whose states every rank has for its heads";
      const std::string batch = why_not_batch(ranks, slots);
      return batch.empty() ? why_not_gathered(spec, ranks) : batch;
    }
    case GqaMode::kReplicated:
      return shared.heads > 0 && spec.norm_across_heads ? "found a norm across all key heads, expected one of each head"
                                                        : "";
    case GqaMode::kAuto: return "";
  }
  return "";
}

}  // namespace

std::string_view name_of(GqaMode mode) {
  switch (mode) {
    case GqaMode::kAuto: return "auto";
    case GqaMode::kHeads: return "heads";
    case GqaMode::kReplicated: return "replicated";
    case GqaMode::kAllGather: return "all-gather";
    case GqaMode::kBatch: return "batch";
  }
  return "";
}

Result<GqaChoice> choose_gqa(GqaMode wanted, const checkpoint::ModelSpec& spec, int ranks,
                             std::optional<int64_t> slots) {
  LOCKSTEP_TRY(const SharedHeads shared, shared_heads(spec, ranks));
  const bool gathers = shared.heads > 0 && spec.norm_across_heads;
  if (const std::string none = why_not_gathered(spec, ranks); gathers && !none.empty()) {
    return Error{ErrorKind::kUnsupported,
                 fmt::format("[shards/partition] cannot divide key/value heads that are normed together: {}; start "
                             "fewer ranks",
                             none)};
  }
  const GqaMode shared_mode = gathers ? GqaMode::kAllGather : GqaMode::kReplicated;
  const GqaMode usual = shared.heads == 0 ? GqaMode::kHeads : shared_mode;
  std::string reason = why_not(wanted, spec, ranks, shared, slots);
  const bool is_usual = wanted == GqaMode::kAuto || wanted == GqaMode::kReplicated || !reason.empty();
  return GqaChoice{is_usual ? usual : wanted, std::move(reason)};
}

}  // namespace lockstep::partition
