#include "actors/prompt_queue.h"

#include <algorithm>
#include <limits>
#include <set>
#include <span>
#include <utility>

#include "actors/schedule.h"
#include "runtime/core/check.h"

namespace lockstep::actors {

void PromptQueue::add(Prompt prompt) {
  LOCKSTEP_CHECK(prompt.held < std::ssize(prompt.ids), prompt.slot, prompt.held, prompt.ids.size());
  const int64_t held = prompt.held;
  prompts_.set(index(prompt.slot), prompt.ids);
  pending_.push_back({.prompt = std::move(prompt), .done = held});
  find_source(pending_.back());
}

/// The earlier prompt with the longest common prefix that can pause at exactly its length. A prompt that is itself
/// waiting to be copied qualifies only if its own copy is shorter.
void PromptQueue::find_source(Pending& pending) {
  pending.source = nullptr;
  pending.shared = std::max(limits_.shared_prefix - 1, pending.done);
  if (pending.prompt.embeddings) return;
  const std::vector<int64_t> same = prompts_.common(pending.prompt.ids);
  for (Pending& other : pending_) {
    if (&other == &pending) break;
    if (other.is_urgent || other.prompt.embeddings || other.prompt.long_rope != pending.prompt.long_rope) continue;
    // Without the last token of either.
    const int64_t common = std::min({same[index(other.prompt.slot)], other.size() - 1, pending.size() - 1});
    const int64_t begins_at = other.source == nullptr ? other.done : other.shared + 1;
    if (common <= pending.shared || common < begins_at) continue;
    pending.source = &other;
    pending.shared = common;
  }
}

void PromptQueue::drop(SlotId slot) {
  const auto dropped = std::ranges::find(pending_, slot, [](const Pending& p) { return p.prompt.slot; });
  if (dropped == pending_.end()) return;
  std::list<Pending> gone;
  gone.splice(gone.end(), pending_, dropped);
  prompts_.set(index(slot), {});
  for (Pending& pending : pending_) {
    if (pending.source == &gone.front()) find_source(pending);
  }
}

bool PromptQueue::is_between_prompts_of_a_request() const { return std::ranges::any_of(pending_, &Pending::is_urgent); }

shards::PrefillRows PromptQueue::next_step(int64_t most, PromptOrder order) {
  most = std::min(most, limits_.chunk);
  shards::PrefillRows rows;
  rows.logit_rows.assign(static_cast<size_t>(limits_.slots), -1);
  copy_slots(rows);
  let_requests_end();
  for (Pending* const pending : ordered(order)) {
    take_rows(*pending, most, rows);
    const bool is_full = std::ssize(rows.ids) == most;
    if (is_full || (limits_.rows_of_one_slot && !rows.ids.empty())) break;
  }
  LOCKSTEP_CHECK(!rows.ids.empty(), pending_.size());
  remove_done();
  return rows;
}

std::vector<PromptQueue::Pending*> PromptQueue::ordered(PromptOrder order) {
  std::vector<Pending*> prompts;
  for (Pending& pending : pending_) prompts.push_back(&pending);
  const bool has_turn = order == PromptOrder::kShortestInTurn && std::exchange(shortest_is_next_, !shortest_is_next_);
  if (!has_turn || is_between_prompts_of_a_request()) return prompts;
  const auto left = [&](const Pending* pending) {
    const bool may_run = limit(*pending) > pending->done;
    return may_run ? pending->size() - pending->done : std::numeric_limits<int64_t>::max();
  };
  const auto shortest = std::ranges::min_element(prompts, {}, left);
  std::rotate(prompts.begin(), shortest, shortest + 1);
  return prompts;
}

void PromptQueue::copy_slots(shards::PrefillRows& rows) {
  std::set<const Pending*> copies;
  for (Pending& pending : pending_) {
    if (pending.source == nullptr || pending.source->done != pending.shared) continue;
    LOCKSTEP_CHECK(!copies.contains(pending.source), pending.prompt.slot);
    rows.copies.push_back({pending.source->prompt.slot, pending.prompt.slot});
    pending.done = pending.shared;
    pending.source = nullptr;
    copies.insert(&pending);
  }
}

/// A request's prompts may end in this step if their last tokens are all that is missing.
void PromptQueue::let_requests_end() {
  std::set<RequestId> not_ready;
  for (const Pending& pending : pending_) {
    if (!pending.lacks_only_its_end()) not_ready.insert(pending.prompt.request);
  }
  std::set<RequestId> seen, several;
  for (const Pending& pending : pending_) {
    if (!seen.insert(pending.prompt.request).second) several.insert(pending.prompt.request);
  }
  for (Pending& pending : pending_) {
    const RequestId request = pending.prompt.request;
    pending.may_end = !several.contains(request) || !not_ready.contains(request);
  }
}

/// The limit of `pending` in this step: its own end, or the length of the nearest copy.
int64_t PromptQueue::limit(const Pending& pending) const {
  if (pending.source != nullptr) return pending.done;
  int64_t limit = pending.may_end ? pending.size() : pending.size() - 1;
  for (const Pending& other : pending_) {
    if (other.source == &pending) limit = std::min(limit, other.shared);
  }
  return limit;
}

void PromptQueue::take_embedding(Pending& pending, shards::PrefillRows& rows) const {
  const auto size = static_cast<size_t>(limits_.embedding_size);
  const std::span<const float> row = std::span(*pending.prompt.embeddings).subspan(pending.embedded, size);
  rows.embeddings.insert(rows.embeddings.end(), row.begin(), row.end());
  pending.embedded += size;
}

void PromptQueue::take_rows(Pending& pending, int64_t most, shards::PrefillRows& rows) {
  const int64_t room = most - std::ssize(rows.ids);
  for (const int64_t end = std::min(limit(pending), pending.done + room); pending.done < end; ++pending.done) {
    rows.ids.push_back(pending.prompt.ids[static_cast<size_t>(pending.done)]);
    if (rows.ids.back() == shards::kEmbedded) take_embedding(pending, rows);
    rows.slot.push_back(pending.prompt.slot.value);
    rows.position.push_back(static_cast<int32_t>(pending.done));
  }
  if (!pending.is_done()) return;
  rows.logit_rows[static_cast<size_t>(pending.prompt.slot.value)] = static_cast<int32_t>(rows.ids.size()) - 1;
}

/// The remaining prompts of a request with an ended prompt come first from now on.
void PromptQueue::remove_done() {
  std::set<RequestId> ended;
  for (const Pending& pending : pending_) {
    if (!pending.is_done()) continue;
    ended.insert(pending.prompt.request);
    prompts_.set(index(pending.prompt.slot), {});
  }
  std::erase_if(pending_, [](const Pending& pending) { return pending.is_done(); });
  for (Pending& pending : pending_) pending.is_urgent |= ended.contains(pending.prompt.request);
  pending_.sort([](const Pending& a, const Pending& b) { return a.is_urgent && !b.is_urgent; });
}

}  // namespace lockstep::actors
