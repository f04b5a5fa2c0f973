#include "runtime/backends/cpu/packing.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <vector>

namespace lockstep::cpu {
namespace {

std::vector<uint16_t> numbered(int64_t count) {
  std::vector<uint16_t> values(static_cast<size_t>(count));
  std::iota(values.begin(), values.end(), uint16_t{1});
  return values;
}

TEST(Packing, GivesBackEveryRowItWasGiven) {
  for (const bool pairs : {false, true}) {
    for (int64_t n : {1, 16, 17, 63, 64, 65, 130}) {
      for (int64_t k : {1, 2, 7, 64, 129}) {
        for (int64_t leaf : {k, int64_t{3}, int64_t{4}}) {
          const Packing packing = Packing::for_leaves(n, k, leaf, DType::kBFloat16, pairs);
          const std::vector<uint16_t> source = numbered(n * k);
          std::vector<std::byte> packed(static_cast<size_t>(packing.bytes()));
          pack(packing, reinterpret_cast<const std::byte*>(source.data()), packed.data());
          std::vector<uint16_t> row(static_cast<size_t>(k));
          for (int64_t i = 0; i < n; ++i) {
            unpack_row(packing, packed.data(), i, reinterpret_cast<std::byte*>(row.data()));
            ASSERT_TRUE(std::equal(row.begin(), row.end(), source.begin() + i * k)) << n << "x" << k << " row " << i;
          }
        }
      }
    }
  }
}

TEST(Packing, LaysTheStepsOfAPanelOneAfterTheOther) {
  const Packing packing = Packing::for_leaves(20, 2, 2, DType::kFloat32, false);
  std::vector<float> source(40);
  std::iota(source.begin(), source.end(), 0.0f);
  std::vector<float> packed(static_cast<size_t>(packing.bytes()) / 4);
  pack(packing, reinterpret_cast<const std::byte*>(source.data()), reinterpret_cast<std::byte*>(packed.data()));
  ASSERT_EQ(packed.size(), 64u);           // two strips of 16 rows, two steps
  EXPECT_EQ(packed[1], source[2]);         // row 1, column 0
  EXPECT_EQ(packed[32 + 19], source[39]);  // row 19, column 1
  EXPECT_EQ(packed[32 + 20], 0.0f);        // padding
}

TEST(Packing, PadsOnlyLeavesThatWouldShareAPair) {
  EXPECT_EQ(Packing::for_leaves(16, 30, 5, DType::kBFloat16, true).padded_k(), 36);
  EXPECT_EQ(Packing::for_leaves(16, 30, 6, DType::kBFloat16, true).padded_k(), 30);
  EXPECT_EQ(Packing::for_leaves(16, 30, 5, DType::kBFloat16, false).padded_k(), 30);
  EXPECT_EQ(Packing::for_leaves(16, 31, 31, DType::kBFloat16, true).padded_k(), 32);
  EXPECT_EQ(Packing::for_leaves(16, 30, 6, DType::kBFloat16, true),
            Packing::for_leaves(16, 30, 30, DType::kBFloat16, true));
}

}  // namespace
}  // namespace lockstep::cpu
