// The definition of next-token sampling: scores, candidates and random number.
//
// The host and every backend share it, so a token does not depend on where it was computed.
//
//   logits ─► repetition penalty ─► forbidden ids ─► temperature ─► top-k ─► top-p ─► min-p ─► typical
//          ─► epsilon ─► eta ─► softmax ─► inverse CDF at u
//
// in the order and with the edge cases of Hugging Face's processors. Greedy takes the highest score after the penalty,
// ties to the lowest id. u is a counter-based function of (seed, output index), so it does not depend on the batch, the
// slot, the chunk or the tensor-parallel degree.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/core/field_list.h"

namespace lockstep::sampling {

/// The largest number of end tokens of a sequence.
inline constexpr int64_t kMaxEosIds = 16;

/// The sampling parameters of one sequence. Neutral values disable a processor.
struct Parameters {
  bool do_sample = false;
  float temperature = 1.0f;         // above 0
  int32_t top_k = 0;                // 0: all
  float top_p = 1.0f;               // 1: all
  float min_p = 0.0f;               // 0: all
  float repetition_penalty = 1.0f;  // 1: none
  uint64_t seed = 0;                // of this sequence
  float typical_p = 1.0f;           // 1: all
  float epsilon_cutoff = 0.0f;      // 0: all
  float eta_cutoff = 0.0f;          // 0: all

  friend bool operator==(const Parameters&, const Parameters&) = default;
};
LOCKSTEP_FIELDS(Parameters, do_sample, temperature, top_k, top_p, min_p, repetition_penalty, seed, typical_p,
                epsilon_cutoff, eta_cutoff);

/// 32 random bits by Philox4x32-10 (Salmon et al., SC 2011): equal `key` and `counter` give the same bits on every
/// machine.
struct RandomBits {
  uint32_t word[4];
};
RandomBits philox(std::array<uint32_t, 2> key, std::array<uint32_t, 4> counter);
/// Philox with the two upper counter words zero.
RandomBits philox(uint32_t key_low, uint32_t key_high, uint32_t counter_low, uint32_t counter_high);

/// A number in [0, 1) with 24 random bits, for output token `output_index` of a sequence with `seed`.
float uniform(uint64_t seed, uint32_t output_index);

/// The seed of row `row` of the whole job, derived from the user's `seed`, so that different rows draw differently.
uint64_t row_seed(uint64_t seed, uint64_t row);

/// Working memory of `choose`, so that a step does not allocate: one per thread, for vocabularies up to `capacity`.
class Scratch {
 public:
  explicit Scratch(int64_t capacity);
  ~Scratch() = default;
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  float* scores() { return scores_.data(); }
  float* weights() { return weights_.data(); }
  int32_t* order() { return order_.data(); }
  int64_t capacity() const { return static_cast<int64_t>(scores_.size()); }

 private:
  std::vector<float> scores_;   // by id
  std::vector<float> weights_;  // by id: exp(score − best)
  std::vector<int32_t> order_;  // ids that are being ranked
};

/// The next token. `logits` is f32 [V]; `seen` is u8 [V], 1 for ids of the prompt and the output so far, for the
/// repetition penalty. The `forbidden` ids are not chosen (end tokens before min_new_tokens); ids outside the
/// vocabulary are ignored. Does not allocate.
int32_t choose(std::span<const float> logits, std::span<const uint8_t> seen, const Parameters& parameters,
               uint32_t output_index, Scratch& scratch, std::span<const int32_t> forbidden = {});

/// The processed scores that `choose` draws from (−inf for excluded ids), without the softmax, for tests and
/// `output_scores`. `dst` is f32 [V].
void processed_scores(std::span<const float> logits, std::span<const uint8_t> seen, const Parameters& parameters,
                      std::span<float> dst, Scratch& scratch, std::span<const int32_t> forbidden = {});

}  // namespace lockstep::sampling
