#include "runtime/core/tensor_sum.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <random>
#include <vector>

namespace lockstep {
namespace {

std::vector<std::byte> noise(size_t size) {
  std::mt19937_64 engine(7);
  std::vector<std::byte> bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(engine());
  return bytes;
}

/// Bytes [begin, end) of rows [first, last) of a matrix of rows of `width` bytes.
std::vector<std::byte> part(const std::vector<std::byte>& all, int64_t width, int64_t first, int64_t last,
                            int64_t begin, int64_t end) {
  std::vector<std::byte> bytes;
  for (int64_t row = first; row < last; ++row) {
    bytes.insert(bytes.end(), all.begin() + row * width + begin, all.begin() + row * width + end);
  }
  return bytes;
}

TensorSum sum_of_part(const std::vector<std::byte>& all, int64_t width, int64_t first, int64_t last, int64_t begin,
                      int64_t end) {
  return sum_of_rows(part(all, width, first, last, begin, end), end - begin, {.row = first, .byte = begin});
}

TEST(TensorSum, OfAnyPartsIsThatOfTheWhole) {
  constexpr int64_t kRows = 7, kWidth = 200;
  const auto all = noise(kRows * kWidth);
  const TensorSum whole = sum_of_rows(all, kWidth, {});
  for (int64_t row = 0; row <= kRows; ++row) {
    for (int64_t byte = 0; byte <= kWidth; ++byte) {
      TensorSum sum;
      for (const auto& [first, last] : {std::pair{int64_t{0}, row}, {row, kRows}}) {
        for (const auto& [begin, end] : {std::pair{int64_t{0}, byte}, {byte, kWidth}}) {
          if (first < last && begin < end) sum += sum_of_part(all, kWidth, first, last, begin, end);
        }
      }
      EXPECT_EQ(sum.plain, whole.plain) << row << " " << byte;
      if (byte % kSumLane == 0) {
        EXPECT_EQ(sum, whole) << row << " " << byte;
      }
    }
  }
}

TEST(TensorSum, ChangesWithEveryBit) {
  constexpr int64_t kWidth = 37;
  auto all = noise(4 * kWidth);
  const TensorSum before = sum_of_rows(all, kWidth, {});
  for (size_t byte = 0; byte < all.size(); ++byte) {
    for (int bit = 0; bit < 8; ++bit) {
      const auto flipped = static_cast<std::byte>(1 << bit);
      all[byte] ^= flipped;
      EXPECT_NE(sum_of_rows(all, kWidth, {}).plain, before.plain) << byte << " " << bit;
      all[byte] ^= flipped;
    }
  }
}

TEST(TensorSum, ChangesWhenTwoElementsChangePlaces) {
  constexpr int64_t kWidth = 64;
  auto all = noise(3 * kWidth);
  const TensorSum before = sum_of_rows(all, kWidth, {});
  for (size_t a = 0; a < all.size(); a += 2) {
    for (size_t b = a + 2; b < all.size(); b += 2) {
      if (std::memcmp(&all[a], &all[b], 2) == 0) continue;
      const auto swap = [&] {
        std::swap_ranges(all.begin() + static_cast<int64_t>(a), all.begin() + static_cast<int64_t>(a) + 2,
                         all.begin() + static_cast<int64_t>(b));
      };
      swap();
      EXPECT_NE(sum_of_rows(all, kWidth, {}), before) << a << " " << b;
      swap();
    }
  }
}

TEST(TensorSum, DependsOnThePlaceOfZerosToo) {
  const std::vector<std::byte> zeros(64);
  EXPECT_NE(sum_of_rows(zeros, 64, {}).mixed, sum_of_rows(zeros, 64, {.row = 1}).mixed);
  EXPECT_NE(sum_of_rows(zeros, 64, {}).mixed, sum_of_rows(zeros, 64, {.byte = 64}).mixed);
}

TEST(TensorSum, IsTheSameWithEveryInstructionSet) {
  const auto all = noise(5 * 1237);
  for (const int64_t width : {1, 2, 7, 8, 63, 64, 65, 128, 1000, 1237}) {
    const auto rows = std::span(all).first(static_cast<size_t>(5 * width));
    for (const int64_t byte : {0, 3, 8, 4096}) {
      EXPECT_EQ(sum_of_rows(rows, width, {.row = 3, .byte = byte}),
                plainly_computed_sum_of_rows(rows, width, {.row = 3, .byte = byte}))
          << width << " " << byte;
    }
  }
}

TEST(TensorSum, StaysTheSameForEver) {  // files hold such sums
  std::vector<std::byte> bytes(48);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i);
  EXPECT_EQ(to_string(sum_of_rows(bytes, 24, {.row = 5, .byte = 8})), "3208464bc41e9600bb31c13bebd84c78");
}

TEST(TensorSum, IsReadFromItsText) {
  const TensorSum sum{0x0123456789abcdef, 0xfedcba9876543210};
  EXPECT_EQ(to_string(sum), "0123456789abcdeffedcba9876543210");
  EXPECT_EQ(tensor_sum_from_text(to_string(sum)), sum);
  for (const char* text :
       {"", "0123456789abcdef", "0123456789abcdeffedcba987654321", "0123456789ABCDEFfedcba9876543210",
        "0123456789abcdeffedcba98765432100", "-123456789abcdeffedcba9876543210"}) {
    EXPECT_FALSE(tensor_sum_from_text(text)) << text;
  }
}

}  // namespace
}  // namespace lockstep
