// The vocabulary of kernels (runtime/backends/cuda/kernels/device.h) on the CPU. Included by that header alone.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "runtime/core/dtype.h"
#include "tests/cuda_stand_in/simt.h"

#define LOCKSTEP_DEVICE inline
#define LOCKSTEP_UNROLL
#define LOCKSTEP_NO_UNROLL
#define LOCKSTEP_UNROLL_BY(count)
#define LOCKSTEP_KERNEL(name, Parameters, threads)                                                   \
  static void name##_thread(const Parameters& p);                                                    \
  static const ::lockstep::simt::Registration name##_registration(                                   \
      {#name, sizeof(Parameters), threads,                                                           \
       [](const void* parameters) { name##_thread(*static_cast<const Parameters*>(parameters)); }}); \
  static void name##_thread(const Parameters& p)
#define LOCKSTEP_KERNEL_HELD(name, Parameters, threads, blocks) LOCKSTEP_KERNEL(name, Parameters, threads)
#define LOCKSTEP_SITE(operation) \
  ::lockstep::simt::Site { operation, file, line }
#define LOCKSTEP_HERE const char *file = __builtin_FILE(), int line = __builtin_LINE()

namespace lockstep::cuda {

inline int thread_index() { return simt::thread_index(); }
inline int thread_count() { return simt::thread_count(); }
inline int block_index() { return simt::block_index(); }
inline int block_count() { return simt::block_count(); }

template <typename T>
T& shared_memory(LOCKSTEP_HERE) {
  return *static_cast<T*>(simt::shared_memory(sizeof(T), LOCKSTEP_SITE("shared_memory")));
}

template <typename T>
T& shared_memory_of(int bytes, LOCKSTEP_HERE) {
  return *static_cast<T*>(simt::shared_memory(static_cast<size_t>(bytes), LOCKSTEP_SITE("shared_memory")));
}

inline void sync_block(LOCKSTEP_HERE) { simt::meet_block(LOCKSTEP_SITE("sync_block")); }
inline void sync_warp(LOCKSTEP_HERE) { simt::meet_warp(LOCKSTEP_SITE("sync_warp")); }

template <typename T>
T shuffle_xor(T value, int mask, LOCKSTEP_HERE) {
  simt::show(value, LOCKSTEP_SITE("shuffle_xor"));
  const T other = simt::seen_from<T>((simt::thread_index() % simt::kWarp) ^ mask);
  simt::turn_shown();
  return other;
}

inline bool any_of_warp(bool value, LOCKSTEP_HERE) {
  simt::show(value, LOCKSTEP_SITE("any_of_warp"));
  bool any = false;
  for (int lane = 0; lane < simt::kWarp; ++lane) any = simt::seen_from<bool>(lane) || any;
  simt::turn_shown();
  return any;
}

inline float float_of_bits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
inline uint32_t bits_of(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

inline float plus(float a, float b) { return a + b; }
inline float times(float a, float b) { return a * b; }
inline float madd(float a, float b, float c) { return std::fma(a, b, c); }
inline float larger_or_nan(float a, float b) {
  if (std::isnan(a) || std::isnan(b)) return float_of_bits(0x7fffffffu);
  return std::max(a, b);
}
inline float divide(float a, float b) { return a / b; }
inline float square_root(float a) { return std::sqrt(a); }

inline float round_to_whole(float a) { return std::nearbyint(a); }

inline int32_t whole_of(float a) { return static_cast<int32_t>(std::nearbyint(a)); }
inline float float_of_whole(int32_t a) { return static_cast<float>(a); }

inline double times(double a, double b) { return a * b; }
inline double madd(double a, double b, double c) { return std::fma(a, b, c); }
inline double round_to_whole(double a) { return std::nearbyint(a); }
inline float float_of_double(double a) { return static_cast<float>(a); }

inline float float_of_half(uint16_t bits) { return to_float(Float16{bits}); }
inline uint16_t half_of(float value) { return to_float16(value).bits; }

inline uint32_t bf16_pair_of(float first, float second) {
  return to_bfloat16(first).bits | static_cast<uint32_t>(to_bfloat16(second).bits) << 16;
}
inline uint32_t half_pair_of(float first, float second) {
  return half_of(first) | static_cast<uint32_t>(half_of(second)) << 16;
}

struct alignas(16) Words {
  uint32_t word[4];
};
inline Words load_once(const Words* address) {
  if (reinterpret_cast<uintptr_t>(address) % sizeof(Words) != 0) simt::fail("a load of 16 bytes is not aligned to 16");
  return *address;
}

inline void bring_closer(const void*) {}
constexpr int kBroughtBytes = 128;

inline void copy_async_16(void* shared, const void* global) { simt::copy_async_16(shared, global); }
inline void copy_async_16(void* shared, const void* global, int bytes) { simt::copy_async_16(shared, global, bytes); }
inline void commit_copies() { simt::commit_copies(); }
template <int kPending>
void wait_copies() {
  simt::wait_copies(kPending);
}

inline void load_matrices(uint32_t (&words)[4], const void* row, LOCKSTEP_HERE) {
  if (reinterpret_cast<uintptr_t>(row) % 16 != 0) simt::fail("a row of a matrix is not aligned to 16");
  simt::show(row, LOCKSTEP_SITE("load_matrices"));
  const int lane = simt::thread_index() % simt::kWarp;
  for (int matrix = 0; matrix < 4; ++matrix) {
    const auto* from = static_cast<const std::byte*>(simt::seen_from<const void*>(8 * matrix + lane / 4));
    std::memcpy(&words[matrix], from + 4 * (lane % 4), sizeof words[matrix]);
  }
  simt::turn_shown();
}

inline void load_matrices_turned(uint32_t (&words)[4], const void* row, LOCKSTEP_HERE) {
  if (reinterpret_cast<uintptr_t>(row) % 16 != 0) simt::fail("a row of a matrix is not aligned to 16");
  simt::show(row, LOCKSTEP_SITE("load_matrices_turned"));
  const int lane = simt::thread_index() % simt::kWarp;
  for (int matrix = 0; matrix < 4; ++matrix) {
    words[matrix] = 0;
    for (int i = 0; i < 2; ++i) {
      uint16_t element;
      const auto* from = static_cast<const std::byte*>(simt::seen_from<const void*>(8 * matrix + lane % 4 * 2 + i));
      std::memcpy(&element, from + 2 * (lane / 4), sizeof element);
      words[matrix] |= static_cast<uint32_t>(element) << (16 * i);
    }
  }
  simt::turn_shown();
}

/// d += a · b, of tiles of 16 × 16 and 16 × 8 elements that are spread over the warp; sums in order of k. `to_float` is
/// of the lower 16 bits.
template <typename ToFloat>
void multiply_tiles(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], ToFloat to_float,
                    const simt::Site& site) {
  simt::show(std::array{a[0], a[1], a[2], a[3], b[0], b[1]}, site);
  const int lane = simt::thread_index() % simt::kWarp;
  const auto half = [&](uint32_t pair, int which) { return to_float(static_cast<uint16_t>(pair >> (16 * which))); };
  const simt::SeenArrays<uint32_t> seen;
  float from_a[2][16], from_b[2][16];  // of the lane's two rows, and of its two columns
  for (int which = 0; which < 2; ++which) {
    for (int k = 0; k < 16; k += 2) {
      const uint32_t rows = seen.from(lane / 4 * 4 + k % 8 / 2, k / 8 * 2 + which);
      const uint32_t columns = seen.from((lane % 4 * 2 + which) * 4 + k % 8 / 2, 4 + k / 8);
      for (int i = 0; i < 2; ++i) {
        from_a[which][k + i] = half(rows, i);
        from_b[which][k + i] = half(columns, i);
      }
    }
  }
  for (int i = 0; i < 4; ++i) {
    for (int k = 0; k < 16; ++k) d[i] = std::fma(from_a[i / 2][k], from_b[i % 2][k], d[i]);
  }
  simt::turn_shown();
}
inline void mma_16x8x16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], LOCKSTEP_HERE) {
  const auto to_float = [](uint16_t bits) { return float_of_bits(static_cast<uint32_t>(bits) << 16); };
  multiply_tiles(d, a, b, to_float, LOCKSTEP_SITE("mma_16x8x16"));
}
inline void mma_16x8x16_half(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], LOCKSTEP_HERE) {
  multiply_tiles(d, a, b, float_of_half, LOCKSTEP_SITE("mma_16x8x16_half"));
}

inline int32_t dot_bytes(uint32_t a, uint32_t b, int32_t sum) {
  for (int byte = 0; byte < 4; ++byte) {
    sum += static_cast<int8_t>(a >> (8 * byte)) * static_cast<int8_t>(b >> (8 * byte));
  }
  return sum;
}

inline void store_release(uint32_t* address, uint32_t value) {
  std::atomic_ref<uint32_t>(*address).store(value, std::memory_order_release);
}
inline uint32_t load_acquire(const uint32_t* address) {
  return std::atomic_ref<uint32_t>(*const_cast<uint32_t*>(address)).load(std::memory_order_acquire);
}
inline void look_later() { simt::look_later(); }
/// Nanoseconds of a clock that all threads share.
inline uint64_t device_time() {
  return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

inline uint32_t count_arrival(uint32_t* address) {
  return std::atomic_ref<uint32_t>(*address).fetch_add(1, std::memory_order_acq_rel) + 1;
}

inline void follow_previous(LOCKSTEP_HERE) { simt::follow_previous(LOCKSTEP_SITE("follow_previous")); }

}  // namespace lockstep::cuda
