// Element types of activations: arithmetic is in f32, and each result is rounded once.
#pragma once

#include "runtime/backends/cuda/kernels/device.h"
#include "runtime/backends/cuda/kernels/parameters.h"

namespace lockstep::cuda {

struct F32Rows {
  using Element = float;
  LOCKSTEP_DEVICE static float read(float value) { return value; }
  LOCKSTEP_DEVICE static float write(float value) { return value; }
  LOCKSTEP_DEVICE static float round(float value) { return value; }
};

struct Bf16Rows {
  using Element = Bf16;
  LOCKSTEP_DEVICE static float read(Bf16 value) { return float_of(value); }
  LOCKSTEP_DEVICE static Bf16 write(float value) { return bf16_of(value); }
  LOCKSTEP_DEVICE static float round(float value) { return float_of(bf16_of(value)); }
  LOCKSTEP_DEVICE static uint32_t pair(float first, float second) { return bf16_pair_of(first, second); }
  static constexpr uint32_t kOnes = 0x3f803f80;
  static constexpr bool kIsHalf = false;
};

struct F16Rows {
  using Element = uint16_t;
  LOCKSTEP_DEVICE static float read(uint16_t value) { return float_of_half(value); }
  LOCKSTEP_DEVICE static uint16_t write(float value) { return half_of(value); }
  LOCKSTEP_DEVICE static float round(float value) { return float_of_half(half_of(value)); }
  LOCKSTEP_DEVICE static uint32_t pair(float first, float second) { return half_pair_of(first, second); }
  static constexpr uint32_t kOnes = 0x3c003c00;
  static constexpr bool kIsHalf = true;
};

/// d += a · b on tensor cores, of 16-bit elements.
template <typename Rows>
LOCKSTEP_DEVICE void multiply(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  mma_16x8x16(d, a, b);
}
template <>
LOCKSTEP_DEVICE void multiply<F16Rows>(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  mma_16x8x16_half(d, a, b);
}

/// The rows that the step computes.
LOCKSTEP_DEVICE int used(const RowCount& rows) { return rows.in_use == nullptr ? rows.rows : *rows.in_use; }

/// The element of rows of `columns` elements that is this thread's.
struct Place {
  int64_t row, column;
};
LOCKSTEP_DEVICE Place element_of_thread(int columns) {
  const int64_t i = static_cast<int64_t>(block_index()) * thread_count() + thread_index();
  return {i / columns, i % columns};
}

}  // namespace lockstep::cuda
