#include "actors/text_queue.h"

#include <algorithm>
#include <utility>

#include "runtime/core/check.h"

namespace lockstep::actors {

void TextQueue::add(SlotId slot, std::vector<int32_t> ids) {
  LOCKSTEP_CHECK(ids.size() >= 2 && limits_.score_rows > 0, slot, ids.size(), limits_.score_rows);
  pending_.push_back({.slot = slot, .ids = std::move(ids)});
}

void TextQueue::drop(SlotId slot) {
  std::erase_if(pending_, [&](const Pending& pending) { return pending.slot == slot; });
}

bool TextQueue::has(SlotId slot) const { return std::ranges::find(pending_, slot, &Pending::slot) != pending_.end(); }

shards::ScoreRows TextQueue::next_step(int64_t most) {
  most = std::min(most, limits_.score_rows);
  shards::ScoreRows rows;
  for (Pending& pending : pending_) {
    const int64_t room = most - std::ssize(rows.ids);
    for (const int64_t end = std::min(pending.rows(), pending.done + room); pending.done < end; ++pending.done) {
      const auto at = static_cast<size_t>(pending.done);
      rows.ids.push_back(pending.ids[at]);
      rows.slot.push_back(pending.slot.value);
      rows.position.push_back(static_cast<int32_t>(pending.done));
      rows.targets.push_back(pending.ids[at + 1]);
    }
    if (limits_.rows_of_one_slot || std::ssize(rows.ids) == most) break;
  }
  LOCKSTEP_CHECK(!rows.ids.empty(), pending_.size());
  std::erase_if(pending_, [](const Pending& pending) { return pending.done == pending.rows(); });
  return rows;
}

}  // namespace lockstep::actors
