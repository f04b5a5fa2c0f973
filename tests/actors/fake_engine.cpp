#include "tests/actors/fake_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/core/check.h"

namespace lockstep::actors {
namespace {

constexpr auto kPoll = std::chrono::milliseconds(1);  // of abort flags, which wake nobody

/// Waits for `ready` until the flag is raised or patience ends.
template <typename Ready>
Result<void> wait(std::unique_lock<std::mutex>& lock, std::condition_variable& changed, const AbortFlag& abort,
                  Ready ready) {
  const SteadyClock clock;
  const Deadline deadline(clock, kPatience);
  while (!ready()) {
    if (const auto reason = abort.reason()) return *reason;
    if (deadline.has_passed()) return Error{ErrorKind::kDeadlineExceeded, "[fake engine] a peer did not come"};
    changed.wait_for(lock, kPoll);
  }
  return ok();
}

Error bad(std::string what) { return {ErrorKind::kInvalidArgument, "[fake engine] " + std::move(what)}; }

}  // namespace

int32_t next_token(const std::vector<int32_t>& seen) {
  uint32_t hash = 2166136261u;
  for (const int32_t id : seen) hash = (hash ^ static_cast<uint32_t>(id)) * 16777619u;
  return static_cast<int32_t>(hash >> 8) % 90 + 10;
}

std::vector<int32_t> expected_answer(const std::vector<int32_t>& prompt, const shards::SlotParameters& parameters) {
  std::vector<int32_t> seen = prompt;
  std::vector<int32_t> answer;
  while (std::ssize(answer) < parameters.max_new_tokens) {
    answer.push_back(next_token(seen));
    seen.push_back(answer.back());
    if (std::ranges::find(parameters.eos_ids, answer.back()) != parameters.eos_ids.end()) break;
  }
  return answer;
}

Result<std::vector<bool>> FakeGroup::meet(const AbortFlag& abort, const std::vector<bool>& stops) {
  std::unique_lock lock(mutex_);
  if (const auto reason = abort.reason()) return *reason;
  const int64_t generation = generation_;
  proposed_.resize(stops.size());
  for (size_t s = 0; s < stops.size(); ++s) proposed_[s] = proposed_[s] || stops[s];
  if (++arrived_ == size_) {
    arrived_ = 0;
    agreed_ = std::exchange(proposed_, {});
    ++generation_;
    met_.notify_all();
    return agreed_;
  }
  LOCKSTEP_TRY_VOID(wait(lock, met_, abort, [&] { return generation_ != generation; }));
  return agreed_;  // still of this meeting: the next one needs this rank
}

FakeEngine::FakeEngine(Options options, FakeGroup& group, const AbortFlag& abort)
    : options_(options),
      group_(group),
      abort_(abort),
      slots_(static_cast<size_t>(options.slots)),
      tokens_(slots_.size()),
      logits_(slots_.size() * static_cast<size_t>(options.vocabulary)),
      proposed_stops_(slots_.size()),
      agreed_stops_(slots_.size()) {}

Result<void> FakeEngine::open_slot(SlotId slot, const shards::SlotParameters& parameters) {
  Slot& opened = slots_[static_cast<size_t>(slot.value)];
  if (opened.is_open) return bad(fmt::format("slot {} is open already", slot));
  opened = Slot{};
  opened.is_open = true;
  opened.parameters = parameters;
  std::lock_guard lock(mutex_);
  proposed_stops_[static_cast<size_t>(slot.value)] = false;
  return ok();
}

Result<void> FakeEngine::close_slot(SlotId slot) {
  if (!slots_[static_cast<size_t>(slot.value)].is_open) return bad(fmt::format("slot {} is not open", slot));
  slots_[static_cast<size_t>(slot.value)] = Slot{};
  return ok();
}

Result<void> FakeEngine::begin(shards::StepTag tag) {
  const auto step = std::ssize(ran_);
  LOCKSTEP_TRY_VOID(wait_if_blocked(step));
  if (const auto failure = failures_.find(step); failure != failures_.end()) return failure->second;
  LOCKSTEP_CHECK(step != break_at_, step);
  std::vector<bool> stops;
  {
    std::lock_guard lock(mutex_);
    stops = proposed_stops_;
  }
  LOCKSTEP_TRY(agreed_stops_, group_.meet(abort_, stops));
  ran_.push_back({tag.schedule, tag.step});
  std::ranges::fill(tokens_, -1);
  return ok();
}

Result<void> FakeEngine::wait_if_blocked(int64_t step) {
  if (step != block_at_) return ok();
  std::unique_lock lock(mutex_);
  is_blocked_ = true;
  changed_.notify_all();
  return wait(lock, changed_, abort_, [&] { return is_released_; });
}

bool FakeEngine::wait_until_blocked() {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, kPatience, [&] { return is_blocked_; });
}

void FakeEngine::unblock() {
  std::lock_guard lock(mutex_);
  is_released_ = true;
  changed_.notify_all();
}

Result<shards::StepOutput> FakeEngine::prefill(const shards::PrefillRows& rows, shards::StepTag tag) {
  if (std::ssize(rows.ids) > options_.chunk || rows.ids.empty()) return bad(fmt::format("{} rows", rows.ids.size()));
  LOCKSTEP_TRY_VOID(begin(tag));
  for (size_t row = 0; row < rows.ids.size(); ++row) LOCKSTEP_TRY_VOID(take_row(rows, row));
  for (size_t s = 0; s < slots_.size(); ++s) {
    if (rows.logit_rows[s] < 0) continue;
    slots_[s].is_prefilled = true;
    make_token(s);
  }
  return output();
}

Result<void> FakeEngine::take_row(const shards::PrefillRows& rows, size_t row) {
  Slot& slot = slots_[static_cast<size_t>(rows.slot[row])];
  if (!slot.is_open || slot.is_prefilled) return bad(fmt::format("slot {} takes no rows", rows.slot[row]));
  if (rows.position[row] != std::ssize(slot.seen)) {
    return bad(fmt::format("slot {}: position {} after {} rows", rows.slot[row], rows.position[row], slot.seen.size()));
  }
  if (options_.rows_of_one_slot && rows.slot[row] != rows.slot[0]) return bad("rows of two slots");
  slot.seen.push_back(rows.ids[row]);
  return ok();
}

Result<shards::StepOutput> FakeEngine::decode(shards::StepTag tag) {
  LOCKSTEP_TRY_VOID(begin(tag));
  for (size_t s = 0; s < slots_.size(); ++s) {
    if (slots_[s].is_open && slots_[s].is_prefilled) make_token(s);
  }
  return output();
}

void FakeEngine::make_token(size_t s) {
  Slot& slot = slots_[s];
  if (agreed_stops_[s]) slot.is_finished = true;
  if (slot.is_finished) {
    tokens_[s] = slot.parameters.pad_id;
    return;
  }
  tokens_[s] = next_token(slot.seen);
  slot.seen.push_back(tokens_[s]);
  const auto& eos = slot.parameters.eos_ids;
  slot.is_finished = ++slot.made >= slot.parameters.max_new_tokens || std::ranges::find(eos, tokens_[s]) != eos.end();
}

shards::StepOutput FakeEngine::output() {
  for (size_t i = 0; i < logits_.size(); ++i) {
    logits_[i] = static_cast<float>(tokens_[i / static_cast<size_t>(options_.vocabulary)]);
  }
  return {tokens_, logits_};
}

bool FakeEngine::all_finished() const {
  return std::ranges::all_of(slots_, [](const Slot& s) { return !s.is_open || !s.is_prefilled || s.is_finished; });
}

Result<void> FakeEngine::confirm(shards::StepTag) {
  if (confirm_failure_) return *confirm_failure_;
  ++confirms_;
  LOCKSTEP_TRY_VOID(group_.meet(abort_, {}));
  return ok();
}

void FakeEngine::request_stop(SlotId slot) {
  std::lock_guard lock(mutex_);
  stop_requests_.push_back(slot);
  proposed_stops_[static_cast<size_t>(slot.value)] = true;
}

std::vector<SlotId> FakeEngine::stop_requests() const {
  std::lock_guard lock(mutex_);
  return stop_requests_;
}

}  // namespace lockstep::actors
