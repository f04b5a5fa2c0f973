// Additive checksums of tensors.
//
// The sums of a tensor's parts, however it was cut, make the sum of the whole.
//
//   row r of the tensor   │ lane 0 │ lane 1 │ lane 2 │ …      8 bytes each; lane j has lo(j) and hi(j), 32 bits each
//
//   mixed  Σ_r R(r) · Σ_j (lo + k(2j)) · (hi + k(2j + 1))     depends on the place of each lane
//   plain  Σ_r R(r) · Σ_j lane                                 changes with every single bit, because R(r) is odd
//
// all modulo 2^64; the factors of the first are of 32 bits (NH of UMAC, RFC 4418). Two lanes that change places in a
// row leave the plain sum as it is, and the mixed sum in one case of 2^32. A cut inside a lane makes two lanes of it,
// filled with zeros: then only the plain sums add up. Not secure against adversaries.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace lockstep {

struct TensorSum {
  uint64_t mixed = 0;
  uint64_t plain = 0;

  TensorSum& operator+=(const TensorSum& other) {
    mixed += other.mixed;
    plain += other.plain;
    return *this;
  }
  friend bool operator==(const TensorSum&, const TensorSum&) = default;
};

/// Bytes of a lane.
inline constexpr int64_t kSumLane = 8;

/// Where bytes lie in the rows of a tensor.
struct SummedPlace {
  int64_t row = 0;   // the first
  int64_t byte = 0;  // of each row, counted from the beginning of the tensor's row
};

/// The sum of `bytes`, which hold consecutive rows of `row_bytes` bytes (parts of rows) from `place` on. Pure.
TensorSum sum_of_rows(std::span<const std::byte> bytes, int64_t row_bytes, SummedPlace place);

/// The same without vector instructions, for tests.
TensorSum plainly_computed_sum_of_rows(std::span<const std::byte> bytes, int64_t row_bytes, SummedPlace place);

/// 32 hexadecimal digits: mixed, plain.
std::string to_string(const TensorSum& sum);
/// The inverse of `to_string`; empty for any other text.
std::optional<TensorSum> tensor_sum_from_text(std::string_view text);

}  // namespace lockstep
