#include "actors/planner.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "runtime/core/check.h"

namespace lockstep::actors {
namespace {

constexpr std::optional<RequestId> kFree;

}  // namespace

Planner::Planner(PlannerLimits limits)
    : limits_(limits),
      occupants_(static_cast<size_t>(limits.slots)),
      prompts_(limits),
      texts_(limits),
      contents_(limits),
      prefilled_(occupants_.size()) {
  LOCKSTEP_CHECK(limits.slots > 0 && limits.chunk > 0, limits.slots, limits.chunk);
  LOCKSTEP_CHECK(limits.decode_steps > 0 && limits.prefill_steps > 0, limits.decode_steps, limits.prefill_steps);
  LOCKSTEP_CHECK(limits.shared_prefix > 0, limits.shared_prefix);
}

void Planner::add(Admission admission) {
  LOCKSTEP_CHECK(std::ssize(admission.rows) <= limits_.slots, admission.id, admission.rows.size());
  queue_.add(std::move(admission));
}

void Planner::go_on(Admission rest) {
  finish(rest.id);
  queue_.put_first(std::move(rest));
}

void Planner::finish(RequestId request) {
  for (Job& job : jobs_) {
    if (job.admission.id == request) job.finished = true;
  }
  queue_.drop(request);
}

void Planner::note_token(RequestId request, int32_t id) {
  contents_.note_token(request, id);
  const auto found = std::ranges::find(jobs_, request, [](const Job& job) { return job.admission.id; });
  if (found != jobs_.end()) ++found->noted;
}

void Planner::set_bounds(const ScheduleBounds& bounds) {
  LOCKSTEP_CHECK(bounds.decode_steps > 0 && bounds.prefill_steps > 0, bounds.decode_steps, bounds.prefill_steps);
  limits_.rows_beside_decodes = bounds.prefill_rows;
  limits_.scores_beside_decodes = bounds.score_rows;
  limits_.decode_steps = bounds.decode_steps;
  limits_.prefill_steps = bounds.prefill_steps;
  agreement_ = bounds.agreement;
}

std::optional<Schedule> Planner::next() {
  if (!has_work()) return std::nullopt;
  Schedule schedule;
  schedule.number = next_number_++;
  close_slots(schedule);
  open_slots(schedule);
  add_prefills(schedule);
  add_scores(schedule);
  add_decodes(schedule);
  LOCKSTEP_CHECK(schedule.steps() > 0, to_string(schedule));
  describe_jobs(schedule);
  return schedule;
}

Schedule Planner::last() {
  Schedule schedule;
  schedule.number = next_number_++;
  schedule.last = Last::kYes;
  for (Job& job : jobs_) job.finished = true;
  close_slots(schedule);
  return schedule;
}

bool Planner::expects(RequestId request) const {
  const auto is_served = [&](const Job& job) { return job.admission.id == request && !job.is_over(); };
  return std::ranges::any_of(jobs_, is_served) || queue_.has(request);
}

/// Without running jobs every slot is free, or free after closing, so the head of the queue fits.
bool Planner::has_work() const {
  const auto runs = [](const Job& job) { return !job.is_over(); };
  return !queue_.empty() || std::ranges::any_of(jobs_, runs);
}

void Planner::close_slots(Schedule& schedule) {
  for (const Job& job : jobs_) {
    if (!job.is_over()) continue;
    for (const SlotId slot : job.slots) {
      schedule.closed.push_back(slot);
      occupants_[static_cast<size_t>(slot.value)].reset();
      prompts_.drop(slot);
      texts_.drop(slot);
      contents_.close(slot, schedule.number);
    }
  }
  std::ranges::sort(schedule.closed);
  std::erase_if(jobs_, [](const Job& job) { return job.is_over(); });
}

void Planner::open_slots(Schedule& schedule) {
  while (!queue_.empty() && std::ranges::count(occupants_, kFree) >= std::ssize(queue_.front().rows)) {
    open(queue_.pop(), schedule);
  }
}

void Planner::open(Admission admission, Schedule& schedule) {
  Job& job = jobs_.emplace_back();
  for (AdmittedRow& row : admission.rows) {
    OpenedSlot& opened = schedule.opened.emplace_back(open_row(admission, row));
    job.slots.push_back(opened.slot);
    prefilled_[static_cast<size_t>(opened.slot.value)] = std::ssize(opened.prefix.ids);
    if (row.ids.empty()) continue;
    ++job.prompts;
    if (admission.task == Task::kScore) {
      texts_.add(opened.slot, std::move(row.ids));
      continue;
    }
    prompts_.add({.slot = opened.slot,
                  .ids = std::move(row.ids),
                  .long_rope = row.parameters.long_rope,
                  .held = std::ssize(opened.prefix.ids),
                  .embeddings = std::move(row.embeddings),
                  .request = admission.id});
  }
  job.admission = std::move(admission);
}

/// Takes the lowest free slot, since a step runs all slots up to the last one in use. Its contents are copied to
/// another free slot with less useful contents.
OpenedSlot Planner::open_row(const Admission& admission, const AdmittedRow& row) {
  OpenedSlot opened{.slot = take_free_slot(admission.id), .parameters = row.parameters};
  if (!contents_.is_on()) return opened;
  // A text to score has to run every token, and embeddings are not compared.
  if (admission.task != Task::kScore && !row.embeddings)
    opened.prefix = contents_.best_prefix(row.ids, row.parameters.long_rope);
  const bool has_prefix = !opened.prefix.ids.empty();
  std::vector<SlotId> candidates = free_slots();
  if (has_prefix) std::erase(candidates, opened.prefix.source);
  const bool is_in_place = has_prefix && opened.prefix.source == opened.slot;
  const int64_t begin = is_in_place ? std::ssize(opened.prefix.ids) : 0;
  if (const auto place = contents_.place_to_save(opened.slot, begin, candidates)) {
    opened.saved.push_back({*place, contents_.kept_tokens(opened.slot)});
    contents_.save(opened.slot, *place);
  }
  contents_.open(opened.slot, {.owner = admission.id,
                               .begin = opened.prefix,
                               .long_rope = row.parameters.long_rope,
                               .most = std::ssize(row.ids) + admission.new_tokens + limits_.tokens_per_step - 1});
  const bool may_permute = admission.host_chosen && admission.rows.size() > 1;
  if (may_permute || row.embeddings) contents_.forget(opened.slot);
  return opened;
}

std::vector<SlotId> Planner::free_slots() const {
  std::vector<SlotId> slots;
  for (size_t slot = 0; slot < occupants_.size(); ++slot) {
    if (occupants_[slot] == kFree) slots.emplace_back(static_cast<int32_t>(slot));
  }
  return slots;
}

SlotId Planner::take_free_slot(RequestId request) {
  const auto free = std::ranges::find(occupants_, kFree);
  LOCKSTEP_CHECK(free != occupants_.end(), request);
  *free = request;
  return SlotId(static_cast<int32_t>(free - occupants_.begin()));
}

/// Whether slots wait for the next decode step, which rows may delay only a little. It cannot run between the ends of
/// the prompts of a request.
bool Planner::must_spare_decodes() const {
  return limits_.rows_beside_decodes > 0 && !prompts_.is_between_prompts_of_a_request() &&
         std::ranges::any_of(jobs_, &Job::is_decoding);
}

/// While slots decode, prompts and texts take turns: a schedule has one step of either.
void Planner::add_prefills(Schedule& schedule) {
  if (scores_are_next_ && !texts_.is_empty() && must_spare_decodes()) return;
  while (!prompts_.is_empty() && std::ssize(schedule.prefills) < limits_.prefill_steps) {
    const bool spares = must_spare_decodes();
    if (spares && !schedule.prefills.empty()) return;
    const auto order = limits_.rows_beside_decodes > 0 ? PromptOrder::kShortestInTurn : PromptOrder::kAdmission;
    const int64_t most = spares ? limits_.rows_beside_decodes : limits_.chunk;
    const shards::PrefillRows& rows = schedule.prefills.emplace_back(prompts_.next_step(most, order));
    for (const shards::SlotCopy& copy : rows.copies) contents_.note_copy(copy);
    note_rows(rows);
    note_ended_prompts(rows);
  }
}

template <typename Rows>
void Planner::note_rows(const Rows& rows) {
  for (size_t row = 0; row < rows.ids.size(); ++row) {
    contents_.note_row(SlotId(rows.slot[row]), rows.ids[row], rows.position[row]);
    prefilled_[static_cast<size_t>(rows.slot[row])] = rows.position[row] + 1;
  }
}

void Planner::note_ended_prompts(const shards::PrefillRows& rows) {
  for (Job& job : jobs_) {
    const auto ends = [&](SlotId slot) { return rows.logit_rows[static_cast<size_t>(slot.value)] >= 0; };
    const auto ended = std::ranges::count_if(job.slots, ends);
    job.prompts -= ended;
    if (ended > 0 && job.prompts == 0) job.made = 1;
  }
}

void Planner::add_scores(Schedule& schedule) {
  while (!texts_.is_empty() && std::ssize(schedule.scores) < limits_.prefill_steps) {
    const bool spares = must_spare_decodes();
    if (spares && !(schedule.prefills.empty() && schedule.scores.empty())) break;
    const bool is_bound = spares && limits_.scores_beside_decodes > 0;
    const int64_t most = is_bound ? limits_.scores_beside_decodes : limits_.score_rows;
    note_rows(schedule.scores.emplace_back(texts_.next_step(most)));
  }
  scores_are_next_ = schedule.scores.empty();
  for (Job& job : jobs_) {
    if (job.admission.task == Task::kScore) job.prompts = texts_.has(job.slots.front()) ? 1 : 0;
  }
}

void Planner::add_decodes(Schedule& schedule) {
  if (prompts_.is_between_prompts_of_a_request()) return;  // the first choice needs the logits of all
  int64_t smallest = std::numeric_limits<int64_t>::max();
  int64_t largest = 0;
  for (const Job& job : jobs_) {
    if (!job.is_decoding()) continue;
    smallest = std::min(smallest, job.budget());
    largest = std::max(largest, job.budget());
  }
  // A waiting request gets the first free slot.
  int64_t steps = std::min<int64_t>(queue_.empty() ? largest : std::min(smallest, largest), limits_.decode_steps);
  // While prompts or texts remain, or wait for the slot of a text, decoding alternates with them step by step, so that
  // all make progress.
  const bool frees_slots = !schedule.scores.empty() && !queue_.empty();
  if (!prompts_.is_empty() || !texts_.is_empty() || frees_slots) {
    steps = std::min<int64_t>(steps, std::ssize(schedule.prefills) + std::ssize(schedule.scores));
  }
  for (Job& job : jobs_) {
    if (!job.is_decoding()) continue;
    for (const SlotId slot : job.slots) contents_.note_decoded(slot, steps * limits_.tokens_per_step);
    job.made += std::min(steps, job.budget());
  }
  schedule.decode_steps = static_cast<int32_t>(steps);
}

void Planner::describe_jobs(Schedule& schedule) const {
  for (const Job& job : jobs_) {
    if (job.admission.host_chosen) schedule.host_chosen.push_back({job.admission.id, job.slots});
    if (job.admission.logits == Logits::kWanted) {
      schedule.logits_of.insert(schedule.logits_of.end(), job.slots.begin(), job.slots.end());
    }
    if (job.admission.delivery == Delivery::kAtOnce) {
      schedule.delivery = Delivery::kAtOnce;
      schedule.agreement = agreement_;
    }
  }
  std::ranges::sort(schedule.logits_of);
}

std::vector<trace::SlotActivity> Planner::activity() const {
  std::vector<trace::SlotActivity> slots(occupants_.size());
  for (size_t slot = 0; slot < slots.size(); ++slot) {
    slots[slot].tokens = contents_.kept_tokens(SlotId(static_cast<int32_t>(slot)));
    if (slots[slot].tokens > 0) slots[slot].use = trace::SlotUse::kKept;
  }
  for (const Job& job : jobs_) {
    if (job.finished) continue;  // the next schedule closes its slots
    for (const SlotId slot : job.slots) {
      slots[static_cast<size_t>(slot.value)] = {
          .use = job.prompts > 0 ? trace::SlotUse::kPrefill : trace::SlotUse::kDecode,
          .request = job.admission.id,
          .tokens = prefilled_[static_cast<size_t>(slot.value)] + job.noted,
          .new_tokens = job.noted};
    }
  }
  return slots;
}

}  // namespace lockstep::actors
