#include <array>

#include "runtime/sampling/sampling.h"

namespace lockstep::sampling {
namespace {

// Multipliers and key increments of Philox4x32 (Salmon et al., SC 2011, section 3.3).
constexpr uint32_t kMultiplier0 = 0xd2511f53u;
constexpr uint32_t kMultiplier1 = 0xcd9e8d57u;
constexpr uint32_t kWeyl0 = 0x9e3779b9u;
constexpr uint32_t kWeyl1 = 0xbb67ae85u;
constexpr int kRounds = 10;

// The upper counter word separates the two uses of a seed.
constexpr uint32_t kDrawDomain = 0;
constexpr uint32_t kRowDomain = 0x726f7773u;

uint32_t low(uint64_t x) { return static_cast<uint32_t>(x); }
uint32_t high(uint64_t x) { return static_cast<uint32_t>(x >> 32); }

}  // namespace

RandomBits philox(std::array<uint32_t, 2> key, std::array<uint32_t, 4> counter) {
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t product0 = uint64_t{kMultiplier0} * counter[0];
    const uint64_t product1 = uint64_t{kMultiplier1} * counter[2];
    counter = {high(product1) ^ counter[1] ^ key[0], low(product1), high(product0) ^ counter[3] ^ key[1],
               low(product0)};
    key = {key[0] + kWeyl0, key[1] + kWeyl1};
  }
  return {{counter[0], counter[1], counter[2], counter[3]}};
}

RandomBits philox(uint32_t key_low, uint32_t key_high, uint32_t counter_low, uint32_t counter_high) {
  return philox({key_low, key_high}, {counter_low, counter_high, 0, 0});
}

float uniform(uint64_t seed, uint32_t output_index) {
  const RandomBits bits = philox({low(seed), high(seed)}, {output_index, 0, 0, kDrawDomain});
  return static_cast<float>(bits.word[0] >> 8) * 0x1p-24f;
}

uint64_t row_seed(uint64_t seed, uint64_t row) {
  const RandomBits bits = philox({low(seed), high(seed)}, {low(row), high(row), 0, kRowDomain});
  return uint64_t{bits.word[1]} << 32 | bits.word[0];
}

}  // namespace lockstep::sampling
