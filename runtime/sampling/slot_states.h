// The sampling states of all slots, as graphs keep them, and the operations `sample` and `accept` on one slot.
#pragma once

#include <cstdint>
#include <span>

#include "runtime/sampling/slot.h"

namespace lockstep::sampling {

/// The states that both operations read and write, row-major. Borrows them.
struct SlotStates {
  int32_t* last_id = nullptr;  // [slots], like the next two
  int32_t* output_index = nullptr;
  int32_t* finished = nullptr;
  uint8_t* seen = nullptr;            // [slots, vocabulary]
  const float* numbers = nullptr;     // [slots, kNumbers]
  const int32_t* integers = nullptr;  // [slots, kIntegers]
  const int32_t* seed = nullptr;      // [slots, 2]
  const int32_t* eos = nullptr;       // [slots, eos_ids]
  int64_t eos_ids = 0;
  int64_t vocabulary = 0;

  SlotView view(int64_t slot) const;
  std::span<uint8_t> seen_by(int64_t slot) const { return {seen + slot * vocabulary, static_cast<size_t>(vocabulary)}; }
  /// The token of a slot that does not run: its pad id once it is finished, else −1.
  int32_t idle_token(int64_t slot) const;
};

/// One slot of `sample`: `row` is negative where the slot does not run; `logits` is f32 [vocabulary].
int32_t sample_slot(const SlotStates& states, int64_t slot, int32_t row, const float* logits, Scratch& scratch);

/// One slot of `accept`: `ids`, `slots` and `tokens` are its rows [per_slot], `logits` f32 [per_slot, vocabulary].
void accept_slot(const SlotStates& states, int64_t slot, std::span<const int32_t> ids, std::span<const int32_t> slots,
                 const float* logits, int32_t* length, std::span<int32_t> tokens, Scratch& scratch);

}  // namespace lockstep::sampling
