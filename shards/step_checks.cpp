#include "shards/step_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::shards {
namespace {

Error invalid(std::string message) { return {ErrorKind::kInvalidArgument, "[shards] " + std::move(message)}; }

/// `step` names the operation in messages.
Result<void> check_tokens(const char* step, const std::vector<int32_t>& ids, const std::vector<int32_t>& slot,
                          const std::vector<int32_t>& position, int32_t least_id, const StepBounds& bounds) {
  for (size_t row = 0; row < ids.size(); ++row) {
    const bool fits = ids[row] >= least_id && ids[row] < bounds.vocabulary && slot[row] >= 0 &&
                      slot[row] < bounds.slots && position[row] >= 0 && position[row] < bounds.capacity;
    if (fits) continue;
    return invalid(fmt::format("cannot {} row {}: found id {}, slot {}, position {}, expected below {}, {}, {}", step,
                               row, ids[row], slot[row], position[row], bounds.vocabulary, bounds.slots,
                               bounds.capacity));
  }
  return ok();
}

}  // namespace

Result<void> check_slot(SlotId slot, int64_t slots, const char* operation) {
  if (slot.value >= 0 && slot.value < slots) return ok();
  return invalid(fmt::format("cannot {} a slot: found slot {}, expected 0 to {}", operation, slot, slots - 1));
}

Result<void> check_prefill(const PrefillRows& rows, const StepBounds& bounds) {
  const size_t count = rows.ids.size();
  if (std::ssize(rows.ids) > bounds.chunk || rows.slot.size() != count || rows.position.size() != count ||
      std::ssize(rows.logit_rows) != bounds.slots) {
    return invalid(
        fmt::format("cannot prefill: found {} ids, {} slots, {} positions and {} logit rows, expected at most "
                    "{} of each of the first three and {} logit rows",
                    count, rows.slot.size(), rows.position.size(), rows.logit_rows.size(), bounds.chunk, bounds.slots));
  }
  if (count == 0) return invalid("cannot prefill: found no ids, expected one at least");
  const auto embedded = std::ranges::count(rows.ids, kEmbedded);
  if (std::ssize(rows.embeddings) != embedded * bounds.embedding_size || (embedded > 0 && bounds.embedding_size == 0)) {
    return invalid(fmt::format("cannot prefill: found {} numbers of embeddings, expected {} rows of {}",
                               rows.embeddings.size(), embedded, bounds.embedding_size));
  }
  return check_tokens("prefill", rows.ids, rows.slot, rows.position, bounds.embedding_size > 0 ? kEmbedded : 0, bounds);
}

Result<void> check_score(const ScoreRows& rows, const StepBounds& bounds) {
  const size_t count = rows.ids.size();
  const bool have_targets =
      std::ranges::all_of(rows.targets, [&bounds](int32_t id) { return id >= 0 && id < bounds.vocabulary; });
  if (std::ssize(rows.ids) > bounds.score_rows || rows.slot.size() != count || rows.position.size() != count ||
      rows.targets.size() != count || !have_targets) {
    return invalid(fmt::format(
        "cannot score: found {} ids, {} slots, {} positions and {} targets, expected at most {} of each, targets "
        "below {}",
        count, rows.slot.size(), rows.position.size(), rows.targets.size(), bounds.score_rows, bounds.vocabulary));
  }
  return check_tokens("score", rows.ids, rows.slot, rows.position, /*least_id=*/0, bounds);
}

Result<void> check_decision(const Decision& decision, const StepBounds& bounds) {
  const auto slots = static_cast<size_t>(bounds.slots);
  bool fits = decision.tokens.size() == slots && decision.sources.size() == slots && decision.finished.size() == slots;
  for (size_t slot = 0; fits && slot < slots; ++slot) {
    const int32_t source = decision.sources[slot];
    fits = decision.tokens[slot] < bounds.vocabulary && source >= 0 && source < bounds.slots &&
           decision.sources[static_cast<size_t>(source)] == source;
  }
  if (fits) return ok();
  return invalid(
      fmt::format("cannot apply a decision: found {} tokens and {} sources, expected {} of each, tokens below "
                  "{}, and sources that are no copies themselves",
                  decision.tokens.size(), decision.sources.size(), slots, bounds.vocabulary));
}

}  // namespace lockstep::shards
