#include "runtime/core/tensor_sum.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "runtime/core/check.h"

namespace lockstep {
namespace {

constexpr uint64_t kKeyStep =
    0x9e3779b97f4a7c15ull;  // 2^64 / golden ratio: the keys of lane j are the halves of j times it

/// An odd number for each row (splitmix64).
uint64_t row_factor(int64_t row) {
  uint64_t x = static_cast<uint64_t>(row) * kKeyStep + 0x632be59bd9b4e019ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return (x ^ (x >> 31)) | 1u;
}

void add_lane(uint64_t lane, uint64_t key, TensorSum& sum) {
  const auto low = static_cast<uint32_t>(lane) + static_cast<uint32_t>(key);
  const auto high = static_cast<uint32_t>(lane >> 32) + static_cast<uint32_t>(key >> 32);
  sum.mixed += static_cast<uint64_t>(low) * high;
  sum.plain += lane;
}

/// The sum of whole lanes, the first of which has `key`.
using SumLanes = TensorSum (*)(const std::byte* lanes, size_t count, uint64_t key);

TensorSum sum_lanes_portable(const std::byte* lanes, size_t count, uint64_t key) {
  TensorSum sum;
  for (size_t i = 0; i < count; ++i, key += kKeyStep) {
    uint64_t lane;
    std::memcpy(&lane, lanes + i * sizeof lane, sizeof lane);
    add_lane(lane, key, sum);
  }
  return sum;
}

#if defined(__x86_64__)

[[gnu::target("avx2")]] uint64_t total_avx2(__m256i lanes) {
  alignas(32) uint64_t values[4];
  _mm256_store_si256(reinterpret_cast<__m256i*>(values), lanes);
  return values[0] + values[1] + values[2] + values[3];
}

[[gnu::target("avx2")]] TensorSum sum_lanes_avx2(const std::byte* lanes, size_t count, uint64_t key) {
  const __m256i step = _mm256_set1_epi64x(static_cast<int64_t>(4 * kKeyStep));
  __m256i keys =
      _mm256_add_epi64(_mm256_set1_epi64x(static_cast<int64_t>(key)),
                       _mm256_set_epi64x(static_cast<int64_t>(3 * kKeyStep), static_cast<int64_t>(2 * kKeyStep),
                                         static_cast<int64_t>(kKeyStep), 0));
  __m256i mixed = _mm256_setzero_si256(), plain = _mm256_setzero_si256();
  size_t i = 0;
  for (; i + 4 <= count; i += 4) {
    const __m256i lane = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(lanes + i * sizeof(uint64_t)));
    const __m256i keyed = _mm256_add_epi32(lane, keys);
    mixed = _mm256_add_epi64(mixed, _mm256_mul_epu32(keyed, _mm256_srli_epi64(keyed, 32)));
    plain = _mm256_add_epi64(plain, lane);
    keys = _mm256_add_epi64(keys, step);
  }
  TensorSum sum{total_avx2(mixed), total_avx2(plain)};
  return sum += sum_lanes_portable(lanes + i * sizeof(uint64_t), count - i, key + i * kKeyStep);
}

[[gnu::target("avx512f")]] TensorSum sum_lanes_avx512(const std::byte* lanes, size_t count, uint64_t key) {
  const __m512i step = _mm512_set1_epi64(static_cast<int64_t>(16 * kKeyStep));
  const auto times = [](uint64_t n) { return static_cast<int64_t>(n * kKeyStep); };
  __m512i keys =
      _mm512_add_epi64(_mm512_set1_epi64(static_cast<int64_t>(key)),
                       _mm512_set_epi64(times(7), times(6), times(5), times(4), times(3), times(2), times(1), 0));
  constexpr __mmask8 kAll = 0xff;  // gcc 12 takes the results without masks for uninitialised
  __m512i mixed = _mm512_setzero_si512(), plain = _mm512_setzero_si512();
  __m512i mixed_of_odd = mixed, plain_of_odd = plain;  // two chains of additions
  const __m512i odd = _mm512_set1_epi64(times(8));
  size_t i = 0;
  for (; i + 16 <= count; i += 16) {
    const __m512i lane = _mm512_loadu_si512(lanes + i * sizeof(uint64_t));
    const __m512i next = _mm512_loadu_si512(lanes + (i + 8) * sizeof(uint64_t));
    const __m512i keyed = _mm512_add_epi32(lane, keys);
    const __m512i next_keyed = _mm512_add_epi32(next, _mm512_add_epi64(keys, odd));
    mixed = _mm512_add_epi64(mixed, _mm512_maskz_mul_epu32(kAll, keyed, _mm512_maskz_srli_epi64(kAll, keyed, 32)));
    mixed_of_odd = _mm512_add_epi64(
        mixed_of_odd, _mm512_maskz_mul_epu32(kAll, next_keyed, _mm512_maskz_srli_epi64(kAll, next_keyed, 32)));
    plain = _mm512_add_epi64(plain, lane);
    plain_of_odd = _mm512_add_epi64(plain_of_odd, next);
    keys = _mm512_add_epi64(keys, step);
  }
  mixed = _mm512_add_epi64(mixed, mixed_of_odd);
  plain = _mm512_add_epi64(plain, plain_of_odd);
  alignas(64) uint64_t totals[2][8];
  _mm512_store_si512(totals[0], mixed);
  _mm512_store_si512(totals[1], plain);
  TensorSum sum;
  for (int j = 0; j < 8; ++j) sum += {totals[0][j], totals[1][j]};
  return sum += sum_lanes_portable(lanes + i * sizeof(uint64_t), count - i, key + i * kKeyStep);
}

#endif

SumLanes fastest_sum_of_lanes() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return sum_lanes_avx512;
  if (__builtin_cpu_supports("avx2")) return sum_lanes_avx2;
#endif
  return sum_lanes_portable;
}

/// A part of one row. Its ends may lie inside lanes, whose other bytes count as zeros.
TensorSum sum_of_row(const std::byte* bytes, int64_t size, int64_t first, SumLanes sum_lanes) {
  TensorSum sum;
  int64_t lane_number = first / kSumLane;
  const auto key_of = [](int64_t lane) { return (static_cast<uint64_t>(lane) + 1) * kKeyStep; };
  const auto add_part = [&](int64_t offset, int64_t count) {
    uint64_t lane = 0;
    std::memcpy(reinterpret_cast<std::byte*>(&lane) + offset, bytes, static_cast<size_t>(count));
    add_lane(lane, key_of(lane_number++), sum);
    bytes += count;
    size -= count;
  };
  if (const int64_t offset = first % kSumLane; offset != 0) add_part(offset, std::min(kSumLane - offset, size));
  const int64_t whole = size / kSumLane;
  sum += sum_lanes(bytes, static_cast<size_t>(whole), key_of(lane_number));
  bytes += whole * kSumLane;
  size -= whole * kSumLane;
  lane_number += whole;
  if (size > 0) add_part(0, size);
  return sum;
}

TensorSum sum_with(SumLanes sum_lanes, std::span<const std::byte> bytes, int64_t row_bytes, SummedPlace place) {
  LOCKSTEP_CHECK(row_bytes > 0 && static_cast<int64_t>(bytes.size()) % row_bytes == 0, bytes.size(), row_bytes);
  TensorSum sum;
  const int64_t rows = static_cast<int64_t>(bytes.size()) / row_bytes;
  for (int64_t row = 0; row < rows; ++row) {
    const TensorSum own = sum_of_row(bytes.data() + row * row_bytes, row_bytes, place.byte, sum_lanes);
    const uint64_t factor = row_factor(place.row + row);
    sum += {factor * own.mixed, factor * own.plain};
  }
  return sum;
}

}  // namespace

TensorSum sum_of_rows(std::span<const std::byte> bytes, int64_t row_bytes, SummedPlace place) {
  static const SumLanes kFastest = fastest_sum_of_lanes();
  return sum_with(kFastest, bytes, row_bytes, place);
}

TensorSum plainly_computed_sum_of_rows(std::span<const std::byte> bytes, int64_t row_bytes, SummedPlace place) {
  return sum_with(sum_lanes_portable, bytes, row_bytes, place);
}

std::string to_string(const TensorSum& sum) { return fmt::format("{:016x}{:016x}", sum.mixed, sum.plain); }

std::optional<TensorSum> tensor_sum_from_text(std::string_view text) {
  constexpr size_t kDigits = 16;
  const bool are_digits =
      std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
  if (text.size() != 2 * kDigits || !are_digits) return std::nullopt;
  TensorSum sum;
  std::from_chars(text.data(), text.data() + kDigits, sum.mixed, 16);
  std::from_chars(text.data() + kDigits, text.data() + 2 * kDigits, sum.plain, 16);
  return sum;
}

}  // namespace lockstep
