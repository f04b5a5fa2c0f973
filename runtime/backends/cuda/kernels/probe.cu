// Kernels that measure a GPU's limits: reading memory, and multiplying in registers.
#include "runtime/backends/cuda/kernels/device.h"
#include "runtime/backends/cuda/kernels/probe_parameters.h"
#include "runtime/backends/cuda/kernels/wgmma.h"

namespace lockstep::cuda {
namespace {

/// Adds the lanes' numbers and writes the sum of the warp.
LOCKSTEP_DEVICE void write_sum(uint32_t* sums, uint32_t sum) {
  for (int mask = 16; mask > 0; mask /= 2) sum += shuffle_xor(sum, mask);
  if (thread_index() % 32 == 0) sums[(block_index() * thread_count() + thread_index()) / 32] = sum;
}

template <int kLoads>
LOCKSTEP_DEVICE void read_words(const ProbeReadParameters& p) {
  const Words* words = static_cast<const Words*>(p.words) + thread_index();
  uint32_t sum = 0;
  for (int64_t tile = block_index(); tile < p.tiles; tile += block_count()) {
    Words loaded[kLoads];
    LOCKSTEP_UNROLL
    for (int i = 0; i < kLoads; ++i) loaded[i] = load_once(words + (tile * kLoads + i) * kProbeThreads);
    LOCKSTEP_UNROLL
    for (int i = 0; i < kLoads; ++i) {
      sum += loaded[i].word[0] + loaded[i].word[1] + loaded[i].word[2] + loaded[i].word[3];
    }
  }
  write_sum(p.sums, sum);
}

/// A whole number from −3 to 3.
LOCKSTEP_DEVICE int32_t small_number(uint32_t seed) {
  return static_cast<int32_t>((seed * kProbeFactor >> 16) % 7) - 3;
}

LOCKSTEP_DEVICE uint16_t element(int32_t number, bool is_half) {
  const float value = float_of_whole(number);
  return is_half ? half_of(value) : bf16_of(value);
}
LOCKSTEP_DEVICE uint32_t pair_of_elements(uint32_t seed, bool is_half) {
  return element(small_number(2 * seed), is_half) | static_cast<uint32_t>(element(small_number(2 * seed + 1), is_half))
                                                        << 16;
}

template <bool kIsHalf>
LOCKSTEP_DEVICE void multiply_tiles_again(const ProbeMultiplyParameters& p) {
  const uint32_t lane = static_cast<uint32_t>(thread_index() % 32);
  uint32_t a[4], b[kProbeTiles][2];
  LOCKSTEP_UNROLL
  for (uint32_t i = 0; i < 4; ++i) a[i] = pair_of_elements(lane * 4 + i, kIsHalf);
  LOCKSTEP_UNROLL
  for (uint32_t i = 0; i < 2 * kProbeTiles; ++i) b[i / 2][i % 2] = pair_of_elements(128 + lane * 16 + i, kIsHalf);
  float sums[kProbeTiles][4] = {};
  for (int time = 0; time < p.times; ++time) {
    LOCKSTEP_UNROLL
    for (int tile = 0; tile < kProbeTiles; ++tile) {
      if constexpr (kIsHalf) {
        mma_16x8x16_half(sums[tile], a, b[tile]);
      } else {
        mma_16x8x16(sums[tile], a, b[tile]);
      }
    }
  }
  uint32_t sum = 0;
  LOCKSTEP_UNROLL
  for (int i = 0; i < 4 * kProbeTiles; ++i) sum += static_cast<uint32_t>(whole_of(sums[i / 4][i % 4]));
  write_sum(p.sums, sum);
}

/// The factors of a block's warpgroups.
struct GroupFactors {
  SharedRows<kGroupRows> a;
  SharedRows<kGroupColumns> b;
};
static_assert(sizeof(GroupFactors) == kProbeGroupsSharedBytes);

/// By tensor cores that read shared memory themselves. Factors are from −1 to 1.
template <bool kIsHalf>
LOCKSTEP_DEVICE void multiply_groups_again(const ProbeMultiplyParameters& p) {
  GroupFactors& shared = shared_memory<GroupFactors>();
  const auto factor = [](int seed) { return element(small_number(static_cast<uint32_t>(seed)) / 2, kIsHalf); };
  for (int i = thread_index(); i < kGroupRows * 16; i += thread_count()) shared.a.element[i] = factor(i);
  for (int i = thread_index(); i < kGroupColumns * 16; i += thread_count()) shared.b.element[i] = factor(i + 4096);
  show_to_products();
  sync_block();
  float sums[kColumnGroups][4] = {};
  begin_products();
  for (int time = 0; time < p.times; ++time) {
    LOCKSTEP_UNROLL
    for (int i = 0; i < kProbeGroups; ++i) multiply_shared<kIsHalf>(sums, shared.a, shared.b);
    end_products<1>();
  }
  end_products<0>();
  uint32_t sum = 0;
  LOCKSTEP_UNROLL
  for (int i = 0; i < 4 * kColumnGroups; ++i) sum += static_cast<uint32_t>(whole_of(sums[i / 4][i % 4]));
  write_sum(p.sums, sum);
}

}  // namespace

LOCKSTEP_KERNEL(probe_fill, ProbeFillParameters, kProbeThreads) {
  const int64_t first = static_cast<int64_t>(block_index()) * thread_count() + thread_index();
  for (int64_t four = first; four < p.fours; four += static_cast<int64_t>(block_count()) * thread_count()) {
    Words words;
    LOCKSTEP_UNROLL
    for (int i = 0; i < 4; ++i) words.word[i] = static_cast<uint32_t>(4 * four + i) * kProbeFactor + kProbeOffset;
    static_cast<Words*>(p.words)[four] = words;
  }
}

LOCKSTEP_KERNEL(probe_read_4, ProbeReadParameters, kProbeThreads) { read_words<4>(p); }
LOCKSTEP_KERNEL(probe_read_8, ProbeReadParameters, kProbeThreads) { read_words<8>(p); }
LOCKSTEP_KERNEL(probe_read_16, ProbeReadParameters, kProbeThreads) { read_words<16>(p); }

LOCKSTEP_KERNEL(probe_multiply_bf16, ProbeMultiplyParameters, kProbeThreads) { multiply_tiles_again<false>(p); }
LOCKSTEP_KERNEL(probe_multiply_f16, ProbeMultiplyParameters, kProbeThreads) { multiply_tiles_again<true>(p); }

LOCKSTEP_KERNEL(probe_multiply_groups_bf16, ProbeMultiplyParameters, kProbeThreads) { multiply_groups_again<false>(p); }
LOCKSTEP_KERNEL(probe_multiply_groups_f16, ProbeMultiplyParameters, kProbeThreads) { multiply_groups_again<true>(p); }

LOCKSTEP_KERNEL(probe_multiply_f32, ProbeMultiplyParameters, kProbeThreads) {
  const uint32_t lane = static_cast<uint32_t>(thread_index() % 32);
  const float a = float_of_whole(small_number(lane));
  float b[kProbeLanes], sums[kProbeLanes] = {};
  LOCKSTEP_UNROLL
  for (uint32_t i = 0; i < kProbeLanes; ++i) b[i] = float_of_whole(small_number(32 + lane * kProbeLanes + i));
  for (int time = 0; time < p.times; ++time) {
    LOCKSTEP_UNROLL
    for (int i = 0; i < kProbeLanes; ++i) sums[i] = madd(a, b[i], sums[i]);
  }
  uint32_t sum = 0;
  LOCKSTEP_UNROLL
  for (int i = 0; i < kProbeLanes; ++i) sum += static_cast<uint32_t>(whole_of(sums[i]));
  write_sum(p.sums, sum);
}

LOCKSTEP_KERNEL(probe_multiply_int8, ProbeMultiplyParameters, kProbeThreads) {
  const uint32_t lane = static_cast<uint32_t>(thread_index() % 32);
  const uint32_t a = (lane + 1) * kProbeFactor;
  uint32_t b[kProbeLanes];
  int32_t sums[kProbeLanes] = {};
  LOCKSTEP_UNROLL
  for (uint32_t i = 0; i < kProbeLanes; ++i) b[i] = (32 + lane * kProbeLanes + i) * kProbeFactor;
  for (int time = 0; time < p.times; ++time) {
    LOCKSTEP_UNROLL
    for (int i = 0; i < kProbeLanes; ++i) sums[i] = dot_bytes(a, b[i], sums[i]);
  }
  uint32_t sum = 0;
  LOCKSTEP_UNROLL
  for (int i = 0; i < kProbeLanes; ++i) sum += static_cast<uint32_t>(sums[i]);
  write_sum(p.sums, sum);
}

}  // namespace lockstep::cuda
