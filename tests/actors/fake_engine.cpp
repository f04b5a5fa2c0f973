#include "tests/actors/fake_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/core/check.h"

namespace lockstep::actors {
namespace {

constexpr auto kPoll = std::chrono::milliseconds(1);  // of abort flags, which wake no thread

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

constexpr int32_t kInstead = 9;  // of an end token before its time; next_token makes no other below 10

uint32_t mix(uint32_t hash, uint32_t value) { return (hash ^ value) * 16777619u; }

uint32_t hash_of(const std::vector<int32_t>& seen) {
  uint32_t hash = 2166136261u;
  for (const int32_t id : seen) hash = mix(hash, static_cast<uint32_t>(id));
  return hash;
}

bool ends(const shards::SlotParameters& parameters, int32_t token) {
  return std::ranges::find(parameters.eos_ids, token) != parameters.eos_ids.end();
}

Error bad(std::string what) { return {ErrorKind::kInvalidArgument, "[fake engine] " + std::move(what)}; }

}  // namespace

int32_t next_token(const std::vector<int32_t>& seen, const shards::SlotParameters& parameters, int32_t index) {
  uint32_t hash = hash_of(seen);
  if (parameters.long_rope) hash = mix(hash, 1);
  if (parameters.sampling.do_sample) hash = mix(hash, static_cast<uint32_t>(parameters.sampling.seed) + index);
  const int32_t token = static_cast<int32_t>(hash >> 8) % 90 + 10;
  return index < parameters.min_new_tokens && ends(parameters, token) ? kInstead : token;
}

std::vector<int32_t> expected_answer(const std::vector<int32_t>& prompt, const shards::SlotParameters& parameters,
                                     int64_t long_rope_after) {
  shards::SlotParameters turned = parameters;
  std::vector<int32_t> seen = prompt;
  std::vector<int32_t> answer;
  while (std::ssize(answer) < parameters.max_new_tokens) {
    turned.long_rope = long_rope_after > 0 && std::ssize(seen) > long_rope_after;
    answer.push_back(next_token(seen, turned, static_cast<int32_t>(answer.size())));
    seen.push_back(answer.back());
    if (ends(parameters, answer.back())) break;
  }
  return answer;
}

std::vector<float> expected_logits(const std::vector<int32_t>& seen, int64_t vocabulary) {
  std::vector<float> logits;
  for (int64_t id = 0; id < vocabulary; ++id) {
    logits.push_back(static_cast<float>(mix(hash_of(seen), static_cast<uint32_t>(id)) >> 8));
  }
  return logits;
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

Result<void> FakeGroup::broadcast(const AbortFlag& abort, int rank, shards::Decision& decision) {
  if (rank == 0) {
    std::lock_guard lock(mutex_);
    decision_ = decision;
  }
  LOCKSTEP_TRY_VOID(meet(abort, {}));
  std::lock_guard lock(mutex_);
  decision = *decision_;
  return ok();
}

FakeEngine::FakeEngine(Options options, FakeGroup& group, const AbortFlag& abort)
    : options_(options),
      group_(group),
      abort_(abort),
      slots_(static_cast<size_t>(options.slots)),
      tokens_(slots_.size() * static_cast<size_t>(options.tokens_per_step)),
      logits_(slots_.size() * static_cast<size_t>(options.vocabulary)),
      proposed_stops_(slots_.size()),
      agreed_stops_(slots_.size()) {}

Result<void> FakeEngine::open_slot(SlotId slot, const shards::SlotParameters& parameters) {
  Slot& opened = slots_[static_cast<size_t>(slot.value)];
  if (opened.is_open) return bad(fmt::format("slot {} is open already", slot));
  if (parameters.first_output >= parameters.max_new_tokens) return bad(fmt::format("slot {} has no budget", slot));
  opened = Slot{};
  opened.output_index = parameters.first_output;
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
  std::ranges::fill(logits_, 0.0f);
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
  for (const shards::SlotCopy& copied : rows.copies) {
    const Slot& src = slots_[static_cast<size_t>(copied.src.value)];
    const Slot& dst = slots_[static_cast<size_t>(copied.dst.value)];
    if (src.is_prefilled || !dst.seen.empty()) return bad(fmt::format("slot {} is no copy", copied.dst));
    LOCKSTEP_TRY_VOID(copy(copied));
  }
  for (size_t row = 0; row < rows.ids.size(); ++row) LOCKSTEP_TRY_VOID(take_row(rows, row));
  for (size_t s = 0; s < slots_.size(); ++s) {
    if (rows.logit_rows[s] < 0) continue;
    slots_[s].is_prefilled = true;
    LOCKSTEP_TRY_VOID(make_token(s, 0));
  }
  prefilled_rows_ += std::ssize(rows.ids);
  return output();
}

Result<void> FakeEngine::copy(shards::SlotCopy copy) {
  const Slot& src = slots_[static_cast<size_t>(copy.src.value)];
  Slot& dst = slots_[static_cast<size_t>(copy.dst.value)];
  if (!src.is_open || !dst.is_open || src.seen.empty()) return bad(fmt::format("{} to {}", copy.src, copy.dst));
  if (src.parameters.long_rope != dst.parameters.long_rope) return bad("a copy of other rope factors");
  dst.seen = src.seen;
  dst.is_prefilled = src.is_prefilled;
  ++copies_;
  return ok();
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
    if (slots_[s].is_open && slots_[s].is_prefilled) LOCKSTEP_TRY_VOID(make_tokens(s));
  }
  return output();
}

/// One token, or more with accepted drafts, which depend on the sequence.
Result<void> FakeEngine::make_tokens(size_t s) {
  const Slot& slot = slots_[s];
  const size_t taken = 1 + hash_of(slot.seen) / 7 % static_cast<size_t>(options_.tokens_per_step);
  for (size_t i = 0; i < taken; ++i) {
    LOCKSTEP_TRY_VOID(make_token(s, i));
    if (slot.is_finished) break;
  }
  return ok();
}

Result<void> FakeEngine::make_token(size_t s, size_t index) {
  Slot& slot = slots_[s];
  int32_t& token = tokens_[s * static_cast<size_t>(options_.tokens_per_step) + index];
  if (agreed_stops_[s]) slot.is_finished = true;
  if (slot.is_finished) {
    token = slot.parameters.pad_id;
    return ok();
  }
  const auto length = std::ssize(slot.seen);
  if (length > options_.capacity) return bad(fmt::format("slot {} holds {} tokens", s, length));
  if (options_.long_rope_after > 0 && slot.parameters.long_rope != (length > options_.long_rope_after)) {
    return bad(fmt::format("slot {} turns {} tokens by the wrong factors", s, length));
  }
  if (options_.vocabulary > 0) {
    std::ranges::copy(expected_logits(slot.seen, options_.vocabulary),
                      logits_.begin() + static_cast<std::ptrdiff_t>(s) * options_.vocabulary);
  }
  token = next_token(slot.seen, slot.parameters, slot.output_index);
  slot.seen.push_back(token);
  slot.is_finished = ++slot.output_index >= slot.parameters.max_new_tokens || ends(slot.parameters, token);
  return ok();
}

shards::StepOutput FakeEngine::output() { return {tokens_, logits_}; }

Result<void> FakeEngine::decide(shards::Decision& decision) {
  LOCKSTEP_TRY_VOID(group_.broadcast(abort_, options_.rank, decision));
  for (size_t s = 0; s < slots_.size(); ++s) {
    const auto src = static_cast<size_t>(decision.sources[s]);
    if (src == s) continue;
    if (decision.sources[src] != decision.sources[s]) return bad(fmt::format("slot {} is copied and a copy", src));
    if (!slots_[src].is_prefilled || slots_[src].is_finished) return bad(fmt::format("slot {} does not run", src));
    LOCKSTEP_TRY_VOID(copy({SlotId(decision.sources[s]), SlotId(static_cast<int32_t>(s))}));
  }
  for (size_t s = 0; s < slots_.size(); ++s) {
    if (decision.tokens[s] < 0 && decision.finished[s] == 0) continue;
    if (!slots_[s].is_prefilled) return bad(fmt::format("slot {} does not run", s));
    if (decision.tokens[s] >= 0) slots_[s].seen.back() = decision.tokens[s];
    if (decision.finished[s] != 0) slots_[s].is_finished = true;
  }
  return ok();
}

bool FakeEngine::all_finished() const {
  return std::ranges::all_of(slots_, [](const Slot& s) { return !s.is_open || !s.is_prefilled || s.is_finished; });
}

Result<void> FakeEngine::confirm(shards::StepTag) {
  if (confirm_failure_ && confirms_ == good_confirms_) return *confirm_failure_;
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
