#include "shards/slot_states.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/core/check.h"
#include "runtime/core/hash.h"
#include "runtime/device/agreement.h"

namespace lockstep::shards {
namespace {

device::StateId find(const device::Store& store, std::string_view name) {
  const auto found = store.find_state(name);
  LOCKSTEP_CHECK(found.has_value(), name);
  return *found;
}

sampling::SlotRule rule_of(const SlotParameters& parameters) {
  sampling::SlotRule rule{.parameters = parameters.sampling,
                          .min_new_tokens = parameters.min_new_tokens,
                          .max_new_tokens = parameters.max_new_tokens,
                          .pad_id = parameters.pad_id};
  std::ranges::copy(parameters.eos_ids, rule.eos.begin());
  return rule;
}

int32_t hash_of(const SlotParameters& parameters) {
  return static_cast<int32_t>(Fingerprint().add(fields_to_text(parameters)).value());
}

}  // namespace

SlotStates::SlotStates(device::Store& store, int64_t slots, int64_t vocabulary)
    : store_(store),
      slots_(slots),
      length_(find(store, "length")),
      active_(find(store, "active")),
      finished_(find(store, "finished")),
      last_id_(find(store, "last_id")),
      output_index_(find(store, "output_index")),
      parameter_hash_(find(store, "parameter_hash")),
      stop_request_(find(store, "stop_request")),
      step_(find(store, "step")),
      seen_(find(store, "seen")),
      draw_numbers_(find(store, "draw_numbers")),
      draw_integers_(find(store, "draw_integers")),
      seed_(find(store, "seed")),
      eos_(find(store, "eos")),
      long_rope_(store.find_state("long_rope")),
      seen_row_(static_cast<size_t>(vocabulary)),
      hashes_(static_cast<size_t>(slots)) {}

template <typename T>
Result<void> SlotStates::write(device::StateId state, SlotId slot, std::span<const T> row) {
  return store_.write_state(state, slot.value * static_cast<int64_t>(row.size_bytes()), std::as_bytes(row));
}

Result<void> SlotStates::write_one(device::StateId state, SlotId slot, int32_t value) {
  return write(state, slot, std::span<const int32_t>(&value, 1));
}

Result<int32_t> SlotStates::read_one(device::StateId state, SlotId slot) const {
  int32_t value = 0;
  LOCKSTEP_TRY_VOID(
      store_.read_state(state, slot.value * int64_t{sizeof(value)}, std::as_writable_bytes(std::span(&value, 1))));
  return value;
}

Result<std::vector<int32_t>> SlotStates::read_all(device::StateId state) const {
  std::vector<int32_t> values(static_cast<size_t>(slots_));
  LOCKSTEP_TRY_VOID(store_.read_state(state, 0, std::as_writable_bytes(std::span(values))));
  return values;
}

Result<void> SlotStates::open(SlotId slot, const SlotParameters& parameters) {
  if (parameters.eos_ids.size() > sampling::kMaxEosIds || parameters.max_new_tokens < 1 ||
      parameters.first_output < 0 || parameters.first_output >= parameters.max_new_tokens) {
    return Error{
        ErrorKind::kInvalidArgument,
        fmt::format("[shards] cannot open slot {}: found {} eos ids and new tokens {} to {}, expected at most {} "
                    "ids and at least one token",
                    slot, parameters.eos_ids.size(), parameters.first_output, parameters.max_new_tokens,
                    sampling::kMaxEosIds)};
  }
  LOCKSTEP_TRY_VOID(set_progress(slot, {.output_index = parameters.first_output}));
  LOCKSTEP_TRY_VOID(write_one(stop_request_, slot, 0));
  std::ranges::fill(seen_row_, uint8_t{0});
  LOCKSTEP_TRY_VOID(write<uint8_t>(seen_, slot, seen_row_));
  const sampling::PackedRule packed = pack(rule_of(parameters));
  LOCKSTEP_TRY_VOID(write<float>(draw_numbers_, slot, packed.numbers));
  LOCKSTEP_TRY_VOID(write<int32_t>(draw_integers_, slot, packed.integers));
  LOCKSTEP_TRY_VOID(write<int32_t>(seed_, slot, packed.seed));
  LOCKSTEP_TRY_VOID(write<int32_t>(eos_, slot, packed.eos));
  if (long_rope_) LOCKSTEP_TRY_VOID(write_one(*long_rope_, slot, parameters.long_rope ? 1 : 0));
  int32_t& hash = hashes_.at(static_cast<size_t>(slot.value));
  hash = hash_of(parameters);
  return write_one(parameter_hash_, slot, hash);
}

void SlotStates::note(SlotId slot, uint64_t value) {
  int32_t& hash = hashes_.at(static_cast<size_t>(slot.value));
  uint64_t mixed = (value ^ (uint64_t{static_cast<uint32_t>(hash)} << 32)) * 0x9e3779b97f4a7c15ull;
  mixed = (mixed ^ (mixed >> 32)) * 0xd6e8feb86659fd93ull;
  hash = static_cast<int32_t>(mixed >> 32);
  has_noted_ = true;
}

Result<void> SlotStates::close(SlotId slot) {
  for (const device::StateId state : {length_, active_, finished_}) LOCKSTEP_TRY_VOID(write_one(state, slot, 0));
  return ok();
}

Result<void> SlotStates::begin_with(SlotId slot, std::span<const int32_t> ids) {
  std::ranges::fill(seen_row_, uint8_t{0});
  for (const int32_t id : ids) {
    seen_row_.at(static_cast<size_t>(id)) = 1;
    note(slot, static_cast<uint64_t>(id));
  }
  LOCKSTEP_TRY_VOID(write<uint8_t>(seen_, slot, seen_row_));
  return write_one(length_, slot, static_cast<int32_t>(ids.size()));
}

Result<SlotProgress> SlotStates::progress(SlotId slot) const {
  SlotProgress progress;
  LOCKSTEP_TRY(progress.length, read_one(length_, slot));
  LOCKSTEP_TRY(progress.last_id, read_one(last_id_, slot));
  LOCKSTEP_TRY(progress.output_index, read_one(output_index_, slot));
  LOCKSTEP_TRY(progress.active, read_one(active_, slot));
  LOCKSTEP_TRY(progress.finished, read_one(finished_, slot));
  return progress;
}

Result<bool> SlotStates::runs(SlotId slot) const {
  SlotProgress progress;
  LOCKSTEP_TRY(progress.active, read_one(active_, slot));
  LOCKSTEP_TRY(progress.finished, read_one(finished_, slot));
  return progress.runs();
}

Result<void> SlotStates::set_progress(SlotId slot, const SlotProgress& progress) {
  LOCKSTEP_TRY_VOID(write_one(length_, slot, progress.length));
  LOCKSTEP_TRY_VOID(write_one(last_id_, slot, progress.last_id));
  LOCKSTEP_TRY_VOID(write_one(output_index_, slot, progress.output_index));
  LOCKSTEP_TRY_VOID(write_one(active_, slot, progress.active));
  return write_one(finished_, slot, progress.finished);
}

Result<void> SlotStates::activate(SlotId slot) { return write_one(active_, slot, 1); }

Result<void> SlotStates::copy(SlotId src, SlotId dst) {
  LOCKSTEP_TRY(SlotProgress progress, this->progress(src));
  // Of a prompt's beginning: what concerns the answer, and its end, is the other request's own.
  if (progress.active == 0) {
    LOCKSTEP_TRY(progress.output_index, read_one(output_index_, dst));
    LOCKSTEP_TRY(progress.finished, read_one(finished_, dst));
  }
  LOCKSTEP_TRY_VOID(set_progress(dst, progress));
  note(dst, static_cast<uint64_t>(src.value));
  const auto bytes = static_cast<int64_t>(seen_row_.size());
  LOCKSTEP_TRY_VOID(store_.read_state(seen_, src.value * bytes, std::as_writable_bytes(std::span(seen_row_))));
  return write<uint8_t>(seen_, dst, seen_row_);
}

Result<void> SlotStates::copy_seen(const SlotStates& from, SlotId slot) {
  LOCKSTEP_CHECK(from.vocabulary() == vocabulary(), from.vocabulary(), vocabulary());
  const auto bytes = static_cast<int64_t>(seen_row_.size());
  LOCKSTEP_TRY_VOID(
      from.store_.read_state(from.seen_, slot.value * bytes, std::as_writable_bytes(std::span(seen_row_))));
  return write<uint8_t>(seen_, slot, seen_row_);
}

Result<void> SlotStates::write_step(StepTag tag, std::span<const int32_t> stop_requests) {
  const int32_t step[2] = {tag.schedule, tag.step};
  LOCKSTEP_TRY_VOID(store_.write_state(step_, 0, std::as_bytes(std::span(step))));
  if (std::exchange(has_noted_, false)) {
    LOCKSTEP_TRY_VOID(store_.write_state(parameter_hash_, 0, std::as_bytes(std::span(hashes_))));
  }
  return store_.write_state(stop_request_, 0, std::as_bytes(stop_requests));
}

Result<uint64_t> SlotStates::checksum(StepTag tag) const {
  LOCKSTEP_TRY(const std::vector<int32_t> last_id, read_all(last_id_));
  LOCKSTEP_TRY(const std::vector<int32_t> length, read_all(length_));
  LOCKSTEP_TRY(const std::vector<int32_t> output_index, read_all(output_index_));
  LOCKSTEP_TRY(const std::vector<int32_t> parameter_hash, read_all(parameter_hash_));
  const int32_t step[2] = {tag.schedule, tag.step};
  return device::agreement_checksum({.step = step,
                                     .last_id = last_id,
                                     .length = length,
                                     .output_index = output_index,
                                     .parameter_hash = parameter_hash});
}

}  // namespace lockstep::shards
