// A slot's sampling rule as stored in graph states, and one step with it.
//
// The host, which writes the states, and the operations `sample` and `accept` of every backend share these columns.
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

/// The sampling and stopping rule of the sequence in a slot.
struct SlotRule {
  Parameters parameters;
  int32_t min_new_tokens = 0;  // end tokens are excluded before this many
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

/// The rows of the states for one `rule`.
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

/// Chooses the next token of an unfinished slot from `logits` f32 [V] and `seen` u8 [V]. The token becomes the slot's
/// last_id, output_index grows by one, and finished becomes 1 on an end token or at the budget. Does not allocate.
int32_t take_next(const SlotView& slot, std::span<const float> logits, std::span<const uint8_t> seen, Scratch& scratch);

/// Verifies a draft: row 0 belongs to the slot's last token, row i to `drafted[i − 1]`. Takes tokens while each equals
/// its draft, so the result is the same, to the bit, as with one row at a time. `logits` is f32 [1 + drafted, V];
/// `seen` is marked with the accepted ids; `tokens` [1 + drafted] receives the tokens, then −1. Returns the number of
/// tokens, at least 1. Does not allocate.
int32_t take_drafted(const SlotView& slot, std::span<const int32_t> drafted, std::span<const float> logits,
                     std::span<uint8_t> seen, std::span<int32_t> tokens, Scratch& scratch);

}  // namespace lockstep::sampling
