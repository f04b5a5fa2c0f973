#include "runtime/sampling/slot_states.h"

#include <algorithm>

namespace lockstep::sampling {

SlotView SlotStates::view(int64_t slot) const {
  return {.numbers = numbers + slot * kNumbers,
          .integers = integers + slot * kIntegers,
          .seed = seed + slot * 2,
          .eos = eos + slot * eos_ids,
          .eos_ids = eos_ids,
          .last_id = last_id + slot,
          .output_index = output_index + slot,
          .finished = finished + slot};
}

int32_t SlotStates::idle_token(int64_t slot) const {
  return finished[slot] != 0 ? integers[slot * kIntegers + kPadId] : int32_t{-1};
}

int32_t sample_slot(const SlotStates& states, int64_t slot, int32_t row, const float* logits, Scratch& scratch) {
  if (row < 0 || states.finished[slot] != 0) return states.idle_token(slot);
  return take_next(states.view(slot), {logits, static_cast<size_t>(states.vocabulary)}, states.seen_by(slot), scratch);
}

void accept_slot(const SlotStates& states, int64_t slot, std::span<const int32_t> ids, std::span<const int32_t> slots,
                 const float* logits, int32_t* length, std::span<int32_t> tokens, Scratch& scratch) {
  std::ranges::fill(tokens, -1);
  if (slots[0] < 0 || states.finished[slot] != 0) {
    tokens[0] = states.idle_token(slot);
    return;
  }
  const auto padding = std::ranges::find_if(slots, [](int32_t s) { return s < 0; });  // fewer drafts
  const auto rows = static_cast<size_t>(padding - slots.begin());
  length[slot] +=
      take_drafted(states.view(slot), ids.subspan(1, rows - 1), {logits, rows * static_cast<size_t>(states.vocabulary)},
                   states.seen_by(slot), tokens.first(rows), scratch);
}

}  // namespace lockstep::sampling
