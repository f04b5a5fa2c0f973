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

/// The definition of packing, element by element.
template <typename Element>
std::vector<Element> packed_slowly(const Packing& packing, const std::vector<Element>& source) {
  std::vector<Element> packed(static_cast<size_t>(packing.bytes()) / sizeof(Element));
  const int64_t per_step = packing.pairs ? 2 : 1;
  for (int64_t row = 0; row < packing.parts * packing.n; ++row) {
    const int64_t in_part = row % packing.n, panel = in_part / kPanel;
    const int64_t width = packing.strips_of_panel(panel) * kStrip;
    const int64_t base = (row / packing.n * packing.bytes_of_part() + packing.panel_offset(panel)) /
                         static_cast<int64_t>(sizeof(Element));
    for (int64_t c = 0; c < packing.padded_k(); ++c) {
      const int64_t column = packing.column_of(c);
      const int64_t at = base + (c / per_step * width + in_part % kPanel) * per_step + c % per_step;
      if (column >= 0) packed[static_cast<size_t>(at)] = source[static_cast<size_t>(row * packing.k + column)];
    }
  }
  return packed;
}

template <typename Element>
void expect_packed_as_slowly(Packing packing, int64_t parts) {
  packing.parts = parts;
  std::vector<Element> source(static_cast<size_t>(parts * packing.n * packing.k));
  std::iota(source.begin(), source.end(), Element{1});
  std::vector<Element> packed(static_cast<size_t>(packing.bytes()) / sizeof(Element), Element{0xee});
  pack(packing, reinterpret_cast<const std::byte*>(source.data()), reinterpret_cast<std::byte*>(packed.data()));
  ASSERT_EQ(packed, packed_slowly(packing, source)) << parts << " x " << packing.n << " x " << packing.k << " leaf "
                                                    << packing.leaf << (packing.pairs ? " pairs" : "");
}

TEST(Packing, IsThatOfOneElementAfterTheOtherForEveryShape) {
  for (const int64_t n : {1, 3, 4, 8, 15, 16, 17, 60, 63, 64, 65, 100, 129}) {
    for (const int64_t k : {1, 2, 3, 4, 5, 8, 15, 16, 17, 31, 32, 33, 66, 127, 200}) {
      for (const int64_t leaf : {k, int64_t{1}, int64_t{5}, int64_t{8}, int64_t{33}}) {
        expect_packed_as_slowly<uint16_t>(Packing::for_leaves(n, k, leaf, DType::kBFloat16, true), 1);
      }
      expect_packed_as_slowly<uint16_t>(Packing::for_leaves(n, k, 7, DType::kBFloat16, true), 3);
      expect_packed_as_slowly<uint16_t>(Packing::for_leaves(n, k, k, DType::kFloat16, false), 2);
      expect_packed_as_slowly<uint32_t>(Packing::for_leaves(n, k, k, DType::kFloat32, false), 2);
    }
  }
}

}  // namespace
}  // namespace lockstep::cpu
