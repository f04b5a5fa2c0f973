// Products with weights in codes against decoded weights, and to the bit against each other.
#include "runtime/backends/cpu/linear_coded.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "runtime/backends/cpu/fused_linear.h"
#include "tests/runtime/backends/cpu/coded_fixture.h"

namespace lockstep::cpu {
namespace {

/// All kinds of codes, scales and offsets; groups of a few lines, of less than one, and wide ones.
const std::vector<std::string> kFormats = {"q4g32.f16",    "q4g32z.bf16", "q4g16m.f16",  "q4g128",       "q4g128z",
                                           "q8g32.f16",    "q8g64z",      "q8g32m.bf16", "e2m1g32.e8m0", "e2m1g16.bf16",
                                           "e4m3g128.f16", "e4m3g64",     "q4g12",       "q4g1024m"};
/// Odd sizes, tails of lines, groups, strips and panels, K longer than a slab.
const std::vector<ProductShape> kShapes = {{1, 1, 1},   {1, 16, 7},    {2, 17, 33},    {3, 64, 64},
                                           {5, 65, 31}, {7, 100, 129}, {13, 130, 257}, {8, 33, 1100}};

class LinearCoded : public ::testing::TestWithParam<CodedMachine> {
 protected:
  CodedMachine machine() const { return GetParam(); }
  DotKind dots() const { return machine().dots; }
  std::vector<WeightFormat> formats(const std::vector<std::string>& from = kFormats) const {
    std::vector<WeightFormat> all;
    for (const std::string& text : from) {
      const WeightFormat format = format_from(text);
      if (multiplies(dots(), format)) all.push_back(format);
    }
    return all;
  }
};

std::string name_of(const ::testing::TestParamInfo<CodedMachine>& test) {
  constexpr const char* kDots[] = {"floats", "bytes", "digits"};
  return "isa" + std::to_string(static_cast<int>(test.param.isa)) + "_" + kDots[static_cast<int>(test.param.dots)];
}

INSTANTIATE_TEST_SUITE_P(EveryIsa, LinearCoded, ::testing::ValuesIn(coded_machines()), name_of);

std::vector<CodedMachine> machines_with(DotKind dots) {
  std::vector<CodedMachine> machines = coded_machines();
  std::erase_if(machines, [dots](const CodedMachine& machine) { return machine.dots != dots; });
  return machines;
}

/// Over everything on this machine that multiplies rows in 8 bits.
class LinearCodedBytes : public LinearCoded {};

INSTANTIATE_TEST_SUITE_P(EveryIsa, LinearCodedBytes, ::testing::ValuesIn(machines_with(DotKind::kBytes)), name_of);

TEST_P(LinearCoded, MultipliesEveryFormatAsDecodedWeights) {
  for (const WeightFormat& format : formats()) {
    for (const ProductShape& shape : kShapes) {
      const CodedFixture product{machine(), DType::kFloat32, format, shape};
      const std::vector<float> found = product.run();
      for (int64_t row = 0; row < shape.rows; ++row) {
        const std::vector<double> x = product.row_of_x(row);
        for (int64_t n = 0; n < shape.n; n += 3) {
          const CodedFixture::Exact exact = product.exact(x, n);
          // Roundings to float32 of at most 1100 terms and their sums, which mostly cancel.
          ASSERT_NEAR(found[static_cast<size_t>(row * shape.n + n)], exact.sum, 4e-6 * exact.magnitude)
              << to_string(format) << ", " << shape.rows << "x" << shape.n << "x" << shape.k << " at " << row << ","
              << n;
        }
      }
    }
  }
}

TEST_P(LinearCoded, GivesARowTheSameBitsWhateverTheOtherRowsAndWorkers) {
  for (const WeightFormat& format : formats()) {
    for (const ProductShape& shape : {ProductShape{9, 100, 129}, ProductShape{4, 33, 1100}}) {
      const CodedFixture product{machine(), DType::kFloat32, format, shape};
      const std::vector<float> together = product.run();
      for (int workers : {2, 7}) EXPECT_TRUE(same_bits(product.run(workers), together)) << workers;
      for (int64_t row = 0; row < shape.rows; ++row) {
        const auto begin = together.begin() + row * shape.n;
        EXPECT_TRUE(same_bits(product.with_row(row).run(), {begin, begin + shape.n}))
            << to_string(format) << ", row " << row << " of " << shape.rows;
      }
    }
  }
}

TEST_P(LinearCoded, GivesTheSameBitsWhereManyPanelsPassInOneCall) {
  // Five panels and two and a half strips; a plain sum, then ranks with two roots each, of leaves of two groups.
  const BlockSplit split{{0, 3, 7}};
  for (const WeightFormat& format : formats({"q4g16.f16", "q8g16", "q8g16z.bf16", "e4m3g16"})) {
    for (const DType result : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
      CodedFixture most{machine(), DType::kFloat32, format, {10, 5 * 64 + 40, 7 * 24}, 24};
      most.result_type = result;
      if (result != DType::kFloat32) most.bias = random_numbers(most.shape.n, 3);
      for (int rank = -1; rank < 2; ++rank) {
        const CodedFixture own = rank < 0 ? most : most.with_columns(rank * 72, rank == 0 ? 72 : 168);
        const auto run = [&](const CodedFixture& some, int workers) {
          return rank < 0 ? some.run(workers) : some.run(workers, split, rank);
        };
        const std::vector<float> all = run(own, 1);  // in tiles of many rows, a panel at a time
        for (int64_t rows = 1; rows <= 7; ++rows) {
          const std::vector<float> found = run(own.with_rows(rows), rows % 2 == 0 ? 1 : 2);
          const int64_t plane = rows * own.shape.n, roots = std::ssize(found) / plane;
          EXPECT_EQ(roots, rank < 0 ? 1 : 2);
          for (int64_t root = 0; root < roots; ++root) {
            const auto expected = all.begin() + root * own.shape.rows * own.shape.n;
            EXPECT_TRUE(same_bits({found.begin() + root * plane, found.begin() + (root + 1) * plane},
                                  {expected, expected + plane}))
                << to_string(format) << ", rank " << rank << ", root " << root << ", " << rows << " rows";
          }
        }
      }
    }
  }
}

/// Finishes the tree of `split` over the roots of all ranks.
std::vector<float> sum_over_ranks(const CodedFixture& product, const BlockSplit& split) {
  const TreeFinish finish = plan_finish(split);
  const auto elements = static_cast<size_t>(product.shape.rows * product.shape.n);
  std::vector<std::vector<float>> roots;
  for (int rank = 0; rank < split.ranks(); ++rank) {
    const Range leaves = split.range_of(rank);
    const int64_t end = std::min(leaves.end * product.leaf, product.shape.k);
    if (leaves.size() == 0) continue;
    const std::vector<float> own = product.with_columns(leaves.begin * product.leaf, end).run(2, split, rank);
    for (size_t at = 0; at < own.size(); at += elements)
      roots.emplace_back(own.begin() + at, own.begin() + at + elements);
  }
  for (const TreeFinish::Step& step : finish.steps) {
    for (size_t i = 0; i < elements; ++i) roots[step.dst][i] += roots[step.src][i];
  }
  return roots[finish.result];
}

TEST_P(LinearCoded, SumsBlocksToTheSameBitsAtEveryDegree) {
  struct Case {
    int64_t leaves, block, k;
    const char* format;
  };
  // The last leaf may be narrower, a leaf may be a group, many groups, or less than a line.
  for (const Case& c : {Case{9, 16, 144, "q4g16.f16"}, Case{7, 5, 33, "q4g4z"}, Case{5, 3, 15, "q8g32m"},
                        Case{3, 1100, 2500, "e2m1g128.e8m0"}, Case{13, 1, 13, "q8g4"}, Case{4, 72, 280, "q4g32m"},
                        Case{4, 72, 280, "e4m3g32"}}) {
    if (!multiplies(dots(), format_from(c.format))) continue;
    const CodedFixture product{machine(), DType::kFloat32, format_from(c.format), {7, 33, c.k}, c.block};
    const std::vector<float> alone = sum_over_ranks(product, BlockSplit{{0, c.leaves}});
    for (int64_t cut = 0; cut <= c.leaves; ++cut) {
      EXPECT_TRUE(same_bits(sum_over_ranks(product, BlockSplit{{0, cut, c.leaves}}), alone))
          << c.leaves << " leaves of " << c.block << " cut at " << cut;
    }
    EXPECT_TRUE(same_bits(sum_over_ranks(product, BlockSplit{{0, c.leaves / 3, c.leaves / 2, c.leaves}}), alone));
  }
}

/// As a stage in which each worker makes or takes all rows, arranges them for itself and has a share of both halves.
TEST_P(LinearCoded, ArrangesRowsInEveryWorkerAloneWithTheSameBits) {
  for (const WeightFormat& format : formats({"q4g64.f16", "q4g64z", "e4m3g64"})) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
      CodedFixture product{machine(), dtype, format, {3, 2 * 80, 200}};
      const auto& [rows, n, k] = product.shape;
      const std::vector<float> expected = product.run();
      const std::vector<std::byte> packed = packed_codes(product.packing(), product.w);
      std::vector<std::byte> x = encode(product.x, dtype);
      for (const bool is_made : {false, true}) {
        std::vector<float> found(expected.size());
        Tensor from{.data = is_made ? nullptr : x.data(), .dtype = dtype, .rows = rows, .columns = k};
        from.stride = k * from.element_size();
        const Tensor to{
            .data = reinterpret_cast<std::byte*>(found.data()), .rows = rows, .columns = n, .stride = n * 4};
        FusedLinear fused(
            CodedLinearTask::plain(product.kernels(), {product.packing(), packed.data()}, from, to, &product.coded()));
        fused.take_halves();
        fused.arrange_alone();
        if (is_made) {
          fused.make_rows(
              [&](int64_t row, std::byte* dst) { std::memcpy(dst, x.data() + row * from.stride, from.stride); });
        }
        EXPECT_EQ(fused.shared_bytes(), 0);
        for (const int workers : {1, 2, 7}) {
          std::fill(found.begin(), found.end(), -77.0f);
          for (int worker = 0; worker < workers; ++worker) {
            std::vector<float> scratch(static_cast<size_t>(fused.private_bytes() / 4), __builtin_nanf(""));
            fused.run(nullptr, reinterpret_cast<std::byte*>(scratch.data()), {worker, workers});
          }
          EXPECT_TRUE(same_bits(found, expected)) << is_made << " " << workers;
        }
      }
    }
  }
}

TEST_P(LinearCoded, MakesNanOfARowThatHoldsNoNumberAndOfNoOther) {
  for (const float odd : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    for (const WeightFormat& format : formats()) {
      CodedFixture product{machine(), DType::kFloat32, format, {8, 35, 77}};
      const std::vector<float> before = product.run();
      product.x[3 * 77 + 70] = odd;
      product.w.scales[static_cast<size_t>(5 * product.groups().count())] = std::numeric_limits<float>::quiet_NaN();
      const std::vector<float> after = product.run();
      for (int64_t row = 0; row < 8; ++row) {
        for (int64_t n = 0; n < 35; ++n) {
          const float found = after[static_cast<size_t>(row * 35 + n)];
          const bool is_odd = row == 3 && (has_bytes(dots()) || std::isnan(odd));
          if (is_odd || n == 5) {
            EXPECT_TRUE(std::isnan(found)) << to_string(format) << " " << row << "," << n;
          } else if (row != 3) {
            EXPECT_EQ(found, before[static_cast<size_t>(row * 35 + n)]) << to_string(format) << " " << row << "," << n;
          }
        }
      }
    }
  }
}

TEST_P(LinearCodedBytes, MultipliesEightBitsByEightAsDefinedToTheBit) {
  for (const ProductShape& shape : kShapes) {
    for (const int64_t group : {4, 32, 128, 1024}) {
      const CodedFixture product{machine(), DType::kFloat32, {.bits = 8, .group = group}, shape};
      const std::vector<float> found = product.run();
      for (int64_t row = 0; row < shape.rows; ++row) {
        for (int64_t n = 0; n < shape.n; n += 3) {
          float sum = 0.0f;
          for (int64_t g = 0; g < product.groups().count(); ++g) {
            const Range of = product.groups().of(g);
            std::vector<int8_t> x8(static_cast<size_t>(of.size()));
            const float x_scale = to_int8(product.x.data() + row * shape.k + of.begin, of.size(), x8.data());
            int32_t dot = 0;
            for (int64_t i = 0; i < of.size(); ++i) {
              dot +=
                  x8[static_cast<size_t>(i)] * (product.w.codes[static_cast<size_t>(n * shape.k + of.begin + i)] - 128);
            }
            const auto at = static_cast<size_t>(n * product.groups().count() + g);
            const float scaled = static_cast<float>(dot) * product.w.scales[at];
            sum = machine().isa == CodedIsa::kBytesPortable ? scaled * x_scale + sum : std::fma(scaled, x_scale, sum);
          }
          ASSERT_EQ(found[static_cast<size_t>(row * shape.n + n)], sum)
              << shape.rows << "x" << shape.n << "x" << shape.k;
        }
      }
    }
  }
}

TEST_P(LinearCodedBytes, SumsTheLargestProductsExactly) {
  // Codes whose pairs of products leave 16 bits unless they are signed, over the longest group.
  for (const float of_x : {1.0f, -1.0f}) {
    for (const uint8_t code : {uint8_t{0}, uint8_t{1}, uint8_t{128}, uint8_t{255}}) {
      for (const int64_t rows : {1, 2, 3}) {
        CodedFixture product{
            machine(), DType::kFloat32, {.bits = 8, .group = kMostInt8Group}, {rows, 16, kMostInt8Group}};
        std::fill(product.x.begin(), product.x.end(), of_x);
        std::fill(product.w.codes.begin(), product.w.codes.end(), code);
        std::fill(product.w.scales.begin(), product.w.scales.end(), 127.0f);
        for (const float found : product.run()) {
          EXPECT_EQ(found, of_x * static_cast<float>((code - 128) * kMostInt8Group * 127)) << int{code};
        }
      }
    }
  }
}

TEST_P(LinearCodedBytes, QuantisesRowsAsDefined) {
  for (int64_t count : {1, 3, 4, 15, 16, 17, 64, 130, 1024}) {
    std::vector<float> values = random_numbers(count, static_cast<uint32_t>(count));
    for (float& value : values) value = value * 3.7f + 0.01f;
    std::vector<int8_t> expected(static_cast<size_t>(count)), found(static_cast<size_t>(count + 3) / 4 * 4, 77);
    const float scale = to_int8(values.data(), count, expected.data());
    const Int8Group group = coded_kernels_of(machine().isa).quantise(values.data(), count, found.data());
    EXPECT_EQ(group.scale, scale);
    expected.resize(found.size(), 0);
    EXPECT_EQ(found, expected) << count;
    int32_t sum = 0;
    for (const int8_t integer : expected) sum += integer;
    EXPECT_EQ(group.sum, sum);
  }
}

TEST(LinearCodedKernels, AgreeToTheBitWhereverMultiplicationAndAdditionAreFused) {
  int pairs = 0;
  for (const DotKind dots : {DotKind::kBytes, DotKind::kDigits}) {
    for (const char* format : {"q4g32z.f16", "q8g64", "e2m1g32.e8m0", "q8g32m.bf16"}) {
      for (const int64_t rows : {1, 7, 37}) {
        std::vector<float> first;
        for (const CodedMachine& machine : machines_with(dots)) {
          if (machine.isa == CodedIsa::kBytesPortable) continue;
          const std::vector<float> found =
              CodedFixture{machine, DType::kFloat32, format_from(format), {rows, 65, 300}}.run();
          pairs += !first.empty();
          if (first.empty()) first = found;
          EXPECT_TRUE(same_bits(found, first)) << format << " " << static_cast<int>(machine.isa) << ", " << rows;
        }
      }
    }
  }
  if (pairs == 0) GTEST_SKIP() << "this processor has one kernel of each kind";
}

TEST(LinearCodedKernels, KeepTheBitsOfBFloat16InDigits) {
  for (const CodedMachine& machine : machines_with(DotKind::kDigits)) {
    const CodedKernels& kernels = coded_kernels_of(machine.isa);
    for (int64_t count : {1, 5, 16, 33, 130}) {
      std::vector<float> values = random_numbers(count, static_cast<uint32_t>(count));
      for (size_t i = 0; i < values.size(); ++i) values[i] = std::ldexp(values[i], -static_cast<int>(i % 14));
      values[0] = -1.0f;
      const int64_t stride = (count + 3) / 4 * 4;
      std::vector<int8_t> digits(static_cast<size_t>(3 * stride), 77);
      const float magnitude = kernels.magnitude(values.data(), count);
      EXPECT_EQ(magnitude, 1.0f);
      const DigitGroup made = kernels.to_digits(values.data(), count, magnitude, digits.data(), stride);
      int32_t sums[3] = {};
      for (int64_t i = 0; i < stride; ++i) {
        const auto digit = [&](int64_t which) { return int32_t{digits[static_cast<size_t>(which * stride + i)]}; };
        const int32_t whole = (digit(0) * 254 + digit(1)) * 254 + digit(2);
        for (int64_t which = 0; which < 3; ++which) EXPECT_NE(digit(which), -128);
        EXPECT_EQ(made.scale * static_cast<float>(whole), i < count ? values[static_cast<size_t>(i)] : 0.0f) << i;
        for (int64_t which = 0; which < 3; ++which) sums[which] += digit(which);
      }
      for (int which = 0; which < 3; ++which) EXPECT_EQ(made.sums[which], sums[which]);
    }
  }
}

}  // namespace
}  // namespace lockstep::cpu
