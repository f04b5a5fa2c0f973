#include "runtime/backends/cpu/coded_packing.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/runtime/backends/cpu/coded_fixture.h"

namespace lockstep::cpu {
namespace {

constexpr DotKind kDots[] = {DotKind::kFloats, DotKind::kBytes, DotKind::kDigits};

TEST(CodedPacking, HasTheBitsOfTheFormat) {
  const auto bits_of = [](const char* format) {
    const int64_t n = 256, k = 2048;
    const CodedPacking packing{
        .n = n, .groups = {.columns = k, .leaf = k, .width = format_from(format).group}, .format = format_from(format)};
    return 8.0 * static_cast<double>(packing.bytes()) / static_cast<double>(n * k);
  };
  EXPECT_EQ(bits_of("q4g32.f16"), 4.5);
  EXPECT_EQ(bits_of("q4g128z.f16"), 4.1875);
  EXPECT_EQ(bits_of("e2m1g32.e8m0"), 4.25);
  EXPECT_EQ(bits_of("q8g64"), 8.5);
  EXPECT_EQ(bits_of("q4g32m.f16"), 5.0);
}

TEST(CodedPacking, KeepsEveryRowOfEveryFormat) {
  for (const DotKind dots : kDots) {
    for (const char* text : {"q4g32.f16", "q4g16z", "q8g32z", "q8g20m.bf16", "e2m1g32.e8m0", "e4m3g64", "q4g7"}) {
      const WeightFormat format = format_from(text);
      CodedPacking packing{.n = 37,
                           .groups = {.columns = 150, .leaf = 50, .width = format.group},
                           .format = format,
                           .dots = dots,
                           .parts = 3};
      const RandomCodes codes = RandomCodes::of(format, packing.groups, packing.n * packing.parts);
      const std::vector<std::byte> packed = packed_codes(packing, codes);
      std::vector<float> row(150);
      for (int64_t n = 0; n < packing.n * packing.parts; ++n) {
        decode_coded_row(packing, packed.data(), n, row.data());
        for (int64_t g = 0; g < packing.groups.count(); ++g) {
          const auto at = static_cast<size_t>(n * packing.groups.count() + g);
          for (int64_t k = packing.groups.of(g).begin; k < packing.groups.of(g).end; ++k) {
            ASSERT_EQ(row[static_cast<size_t>(k)],
                      decode(format, codes.codes[static_cast<size_t>(n * 150 + k)], codes.scales[at],
                             codes.offsets.empty() ? 0.0f : codes.offsets[at]))
                << text << " row " << n << " column " << k;
          }
        }
      }
    }
  }
}

TEST(CodedPacking, MakesNanOfAGroupWithACodeThatIsNan) {
  const WeightFormat format = format_from("e4m3g32.f16");
  const CodedPacking packing{.n = 3, .groups = {.columns = 64, .leaf = 64, .width = 32}, .format = format};
  RandomCodes codes = RandomCodes::of(format, packing.groups, 3);
  codes.codes[64 + 40] = 0xff;
  const std::vector<std::byte> packed = packed_codes(packing, codes);
  std::vector<float> row(64);
  decode_coded_row(packing, packed.data(), 1, row.data());
  EXPECT_FALSE(std::isnan(row[31]));
  EXPECT_TRUE(std::isnan(row[32]));
  EXPECT_TRUE(std::isnan(row[40]));
}

/// Every code in each instruction set: a group of one line whose other columns of x are 0.
TEST(CodedKernels, DecodeEveryCodeExactly) {
  for (const CodedMachine& machine : coded_machines()) {
    for (const char* text : {"q4g8", "q4g8m", "q8g8", "q8g8m", "e2m1g8", "e4m3g8"}) {
      const WeightFormat format = format_from(text);
      if (!multiplies(machine.dots, format)) continue;
      const int64_t n = 1 << format.bits;
      for (int64_t column = 0; column < 8; ++column) {
        for (const int64_t rows : {1, 3}) {
          CodedFixture product{machine, DType::kFloat32, format, {rows, n, 8}};
          std::fill(product.x.begin(), product.x.end(), 0.0f);
          for (int64_t row = 0; row < rows; ++row) product.x[static_cast<size_t>(row * 8 + column)] = 127.0f;
          for (int64_t code = 0; code < n; ++code) {
            const bool is_nan = format.kind == CodeKind::kE4M3 && (code & 0x7f) == 0x7f;
            product.w.codes[static_cast<size_t>(code * 8 + column)] = static_cast<uint8_t>(is_nan ? 0 : code);
            product.w.scales[static_cast<size_t>(code)] = 1.0f;
            if (!product.w.offsets.empty()) product.w.offsets[static_cast<size_t>(code)] = 0.0f;
          }
          const std::vector<float> found = product.run();
          for (int64_t code = 0; code < n; ++code) {
            const uint8_t stored = product.w.codes[static_cast<size_t>(code * 8 + column)];
            ASSERT_EQ(found[static_cast<size_t>((rows - 1) * n + code)], 127.0f * code_value(format, stored))
                << text << " " << code << " of column " << column << ", isa " << static_cast<int>(machine.isa);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::cpu
