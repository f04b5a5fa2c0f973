// Scores of two queries and two keys at a time, for attend_rows.cu: each the sum that a warp's butterfly gives.
#pragma once

#include "runtime/backends/cuda/kernels/device.h"
#include "runtime/backends/cuda/kernels/sums.h"

namespace lockstep::cuda {

constexpr int kWords = 16 / sizeof(float);  // columns that a thread loads at once

struct alignas(16) Four {
  float at[kWords];
};

struct alignas(8) Two {
  float first;
  float second;
};

/// Four sums of products, of two queries with two keys.
struct Pairs {
  float of[2][2];
};

LOCKSTEP_DEVICE Pairs plus_pairs(const Pairs& a, const Pairs& b) {
  Pairs sum;
  LOCKSTEP_UNROLL
  for (int i = 0; i < 4; ++i) sum.of[i / 2][i % 2] = plus(a.of[i / 2][i % 2], b.of[i / 2][i % 2]);
  return sum;
}

/// The place of a column of a query or key.
LOCKSTEP_DEVICE int place_of(int column) {
  const int lane = column % kWarpLanes;
  const int link = column / kWarpLanes;
  return link / 2 * 2 * kWarpLanes + lane / 2 * kWords + link % 2 * 2 + lane % 2;
}

/// The same for two lanes of a warp.
struct OfLanes {
  Pairs of[2];
};

/// Two queries and two keys, of `columns` each.
struct Operands {
  const float* query[2];
  const float* key[2];
  int columns;
};

/// What lanes `lane` and `lane + 1` add up alone.
LOCKSTEP_DEVICE OfLanes chains_of(const Operands& operands, int lane) {
  OfLanes sum{};
  LOCKSTEP_NO_UNROLL
  for (int at = lane * 2; at < operands.columns; at += 2 * kWarpLanes) {
    Four query[2], key[2];
    LOCKSTEP_UNROLL
    for (int i = 0; i < 2; ++i) {
      query[i] = *reinterpret_cast<const Four*>(operands.query[i] + at);
      key[i] = *reinterpret_cast<const Four*>(operands.key[i] + at);
    }
    LOCKSTEP_UNROLL
    for (int word = 0; word < kWords; ++word) {
      LOCKSTEP_UNROLL
      for (int i = 0; i < 4; ++i) {
        float& own = sum.of[word % 2].of[i / 2][i % 2];
        own = madd(query[i / 2].at[word], key[i % 2].at[word], own);
      }
    }
  }
  return sum;
}

/// The same with what the butterfly's masks from `kMask` on bring.
template <int kMask>
LOCKSTEP_DEVICE OfLanes sum_lanes(const Operands& operands, int lane) {
  if constexpr (kMask == kWarpLanes) {
    return chains_of(operands, lane);
  } else {
    const OfLanes a = sum_lanes<2 * kMask>(operands, lane);
    const OfLanes b = sum_lanes<2 * kMask>(operands, lane + kMask);
    return {plus_pairs(a.of[0], b.of[0]), plus_pairs(a.of[1], b.of[1])};
  }
}

LOCKSTEP_DEVICE Pairs multiply_pairs(const Operands& operands) {
  const OfLanes lanes = sum_lanes<2>(operands, 0);
  return plus_pairs(lanes.of[0], lanes.of[1]);
}

}  // namespace lockstep::cuda
