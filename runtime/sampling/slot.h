// How a slot draws and ends, as the states of the graphs hold it, and one step of it: shared by the host that writes
// the states and by every backend's `sample` and `accept`, so that there is one order of columns and one rule.
//
//   Parameters, budget, ids ──pack──► numbers [S, kNumbers], integers [S, kIntegers],
//                                     seed [S, 2], eos [S, E]
//   a row of logits ──take_next──► token; last_id, output_index, finished
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "runtime/sampling/sampling.h"

namespace lockstep::sampling {

/// Columns of the state "draw_numbers".
enum NumberColumn : int {
  kTemperature,
  kTopP,
  kMinP,
  kTypicalP,
  kEpsilonCutoff,
  kEtaCutoff,
  kRepetitionPenalty,
  kNumbers,
};

/// Columns of the state "draw_integers".
enum IntegerColumn : int {
  kTopK,
  kDoSample,
  kMinNewTokens,
  kMaxNewTokens,
  kPadId,
  kIntegers,
};

/// How a sequence in a slot draws and ends.
struct SlotRule {
  Parameters parameters;
  int32_t min_new_tokens = 0;  // its end tokens cannot be chosen before
  int32_t max_new_tokens = 1;
  int32_t pad_id = 0;
  std::array<int32_t, kMaxEosIds> eos = no_eos();  // unused ones are −1

  static constexpr std::array<int32_t, kMaxEosIds> no_eos() {
    std::array<int32_t, kMaxEosIds> none{};
    none.fill(-1);
    return none;
  }

  friend bool operator==(const SlotRule&, const SlotRule&) = default;
};

/// The row of each state that holds `rule`.
struct PackedRule {
  std::array<float, kNumbers> numbers;
  std::array<int32_t, kIntegers> integers;
  std::array<int32_t, 2> seed;  // low word, high word
  std::array<int32_t, kMaxEosIds> eos;
};
PackedRule pack(const SlotRule& rule);

/// One slot's rows of the states. Borrows them.
struct SlotView {
  const float* numbers = nullptr;     // [kNumbers]
  const int32_t* integers = nullptr;  // [kIntegers]
  const int32_t* seed = nullptr;      // [2]
  const int32_t* eos = nullptr;       // [eos_ids]
  int64_t eos_ids = 0;
  int32_t* last_id = nullptr;
  int32_t* output_index = nullptr;
  int32_t* finished = nullptr;
};

/// Chooses the next token of a slot that is not finished from `logits` f32 [V] and `seen` u8 [V], and makes it the
/// slot's last_id; output_index grows by one; finished becomes 1 on an end token or at the budget. Does not allocate.
int32_t take_next(const SlotView& slot, std::span<const float> logits, std::span<const uint8_t> seen, Scratch& scratch);

/// The same for the rows of a draft: row 0 is of the slot's last token, row i of `drafted[i − 1]`. Takes tokens as long
/// as each equals what was drafted, so the result is what one row at a time would have given, to the bit. `logits` is
/// f32 [1 + drafted, V]; `seen` is marked with the accepted ids; `tokens` [1 + drafted] receives the tokens, then −1.
/// Returns how many were taken: at least 1. Does not allocate.
int32_t take_drafted(const SlotView& slot, std::span<const int32_t> drafted, std::span<const float> logits,
                     std::span<uint8_t> seen, std::span<int32_t> tokens, Scratch& scratch);

}  // namespace lockstep::sampling
