#include "actors/planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>

#include "runtime/core/check.h"

namespace lockstep::actors {
namespace {

Error refused(const Request& request, std::string_view what) {
  return {ErrorKind::kInvalidArgument, fmt::format("[actors] cannot answer request {}: {}", request.id, what)};
}

}  // namespace

Result<void> check_request(const Request& request, const PlannerLimits& limits) {
  const auto prompt = static_cast<int64_t>(request.ids.size());
  const int64_t new_tokens = request.parameters.max_new_tokens;
  if (prompt == 0) return refused(request, "found an empty prompt, expected at least one token");
  if (new_tokens < 1) {
    return refused(request, fmt::format("found max_new_tokens {}, expected at least 1", new_tokens));
  }
  if (request.parameters.eos_ids.size() > sampling::kMaxEosIds) {
    return refused(request, fmt::format("found {} EOS ids, expected at most {}", request.parameters.eos_ids.size(),
                                        sampling::kMaxEosIds));
  }
  const auto negative = std::ranges::find_if(request.ids, [](int32_t id) { return id < 0; });
  if (negative != request.ids.end()) {
    return refused(request, fmt::format("found token id {} at index {}, expected 0 or more", *negative,
                                        negative - request.ids.begin()));
  }
  if (prompt + new_tokens - 1 > limits.capacity) {
    return refused(request, fmt::format("found {} prompt tokens and {} new ones, expected at most {} in a slot's cache "
                                        "(the last new token needs no room); raise --max-seq-len or shorten one",
                                        prompt, new_tokens, limits.capacity));
  }
  return ok();
}

Planner::Planner(PlannerLimits limits) : limits_(limits), slots_(static_cast<size_t>(limits.slots)) {
  LOCKSTEP_CHECK(limits.slots > 0 && limits.chunk > 0, limits.slots, limits.chunk);
  LOCKSTEP_CHECK(limits.decode_steps > 0 && limits.prefill_steps > 0, limits.decode_steps, limits.prefill_steps);
}

void Planner::add(Request request) {
  LOCKSTEP_CHECK(check_request(request, limits_).has_value(), request.id);
  queue_.push_back(std::move(request));
}

void Planner::finish(RequestId request) {
  for (Slot& slot : slots_) {
    if (slot.request && slot.request->id == request) slot.finished = true;
  }
  std::erase_if(queue_, [&](const Request& queued) { return queued.id == request; });
}

std::optional<Schedule> Planner::next() {
  if (!has_work()) return std::nullopt;
  Schedule schedule;
  schedule.number = next_number_++;
  close_slots(schedule);
  open_slots(schedule);
  add_prefills(schedule);
  add_decodes(schedule);
  LOCKSTEP_CHECK(schedule.steps() > 0, to_string(schedule));
  return schedule;
}

Schedule Planner::last() {
  Schedule schedule;
  schedule.number = next_number_++;
  schedule.last = Last::kYes;
  for (Slot& slot : slots_) slot.finished = true;
  close_slots(schedule);
  return schedule;
}

std::vector<std::optional<RequestId>> Planner::occupants() const {
  std::vector<std::optional<RequestId>> occupants;
  occupants.reserve(slots_.size());
  for (const Slot& slot : slots_) {
    occupants.push_back(slot.request ? std::optional(slot.request->id) : std::nullopt);
  }
  return occupants;
}

bool Planner::expects(RequestId request) const {
  const auto is_served = [&](const Slot& slot) {
    return slot.request && slot.request->id == request && !slot.is_over();
  };
  const auto is_queued = [&](const Request& queued) { return queued.id == request; };
  return std::ranges::any_of(slots_, is_served) || std::ranges::any_of(queue_, is_queued);
}

bool Planner::has_work() const {
  bool can_admit = false;
  for (const Slot& slot : slots_) {
    if (slot.is_filling() || slot.is_decoding()) return true;
    can_admit = true;  // free, or over and free once closed
  }
  return can_admit && !queue_.empty();
}

void Planner::close_slots(Schedule& schedule) {
  for (size_t s = 0; s < slots_.size(); ++s) {
    if (!slots_[s].is_over()) continue;
    schedule.closed.emplace_back(static_cast<int32_t>(s));
    slots_[s] = Slot{};
  }
}

void Planner::open_slots(Schedule& schedule) {
  for (size_t s = 0; s < slots_.size() && !queue_.empty(); ++s) {
    if (slots_[s].request) continue;
    schedule.opened.push_back({SlotId(static_cast<int32_t>(s)), queue_.front().parameters});
    slots_[s] = Slot{.request = std::move(queue_.front()), .admitted = admissions_++};
    queue_.pop_front();
  }
}

void Planner::add_prefills(Schedule& schedule) {
  std::vector<SlotId> filling;
  for (size_t s = 0; s < slots_.size(); ++s) {
    if (slots_[s].is_filling()) filling.emplace_back(static_cast<int32_t>(s));
  }
  std::ranges::sort(filling, {}, [&](SlotId slot) { return at(slot).admitted; });
  while (!filling.empty() && std::ssize(schedule.prefills) < limits_.prefill_steps) {
    schedule.prefills.push_back(fill_chunk(filling));
  }
}

/// Takes rows from the front of `filling` until the chunk is full, and drops the slots whose prompts are done.
shards::PrefillRows Planner::fill_chunk(std::vector<SlotId>& filling) {
  shards::PrefillRows rows;
  rows.logit_rows.assign(slots_.size(), -1);
  while (!filling.empty() && std::ssize(rows.ids) < limits_.chunk) {
    const SlotId id = filling.front();
    Slot& slot = at(id);
    const int64_t count = std::min(limits_.chunk - std::ssize(rows.ids), slot.prompt() - slot.prefilled);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t position = slot.prefilled + i;
      rows.ids.push_back(slot.request->ids[static_cast<size_t>(position)]);
      rows.slot.push_back(id.value);
      rows.position.push_back(static_cast<int32_t>(position));
    }
    slot.prefilled += count;
    if (slot.prefilled == slot.prompt()) {
      rows.logit_rows[static_cast<size_t>(id.value)] = static_cast<int32_t>(rows.ids.size()) - 1;
      slot.made = 1;
      filling.erase(filling.begin());
    }
    if (limits_.rows_of_one_slot) break;
  }
  return rows;
}

void Planner::add_decodes(Schedule& schedule) {
  int64_t smallest = std::numeric_limits<int64_t>::max();
  int64_t largest = 0;
  bool prompts_remain = false;
  for (const Slot& slot : slots_) {
    if (slot.is_filling()) prompts_remain = true;
    if (!slot.is_decoding()) continue;
    smallest = std::min(smallest, slot.budget());
    largest = std::max(largest, slot.budget());
  }
  // A waiting request gets the first slot that becomes free.
  int64_t steps = std::min<int64_t>(queue_.empty() ? largest : std::min(smallest, largest), limits_.decode_steps);
  // While prompts remain, decoding and prefill take turns step by step, so that both get on.
  if (prompts_remain) steps = std::min<int64_t>(steps, std::ssize(schedule.prefills));
  for (Slot& slot : slots_) {
    if (slot.is_decoding()) slot.made += std::min(steps, slot.budget());
  }
  schedule.decode_steps = static_cast<int32_t>(steps);
}

}  // namespace lockstep::actors
