// The kernels of the CUDA backend on the CPU, to the bit, against plain loops in the same order.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "runtime/backends/cuda/few_rows.h"
#include "runtime/backends/cuda/kernels/parameters.h"
#include "runtime/backends/cuda/packing.h"
#include "runtime/backends/cuda/sum_parts.h"
#include "runtime/core/dtype.h"
#include "runtime/core/int8_groups.h"
#include "tests/cuda_stand_in/simt.h"

namespace lockstep::cuda {
namespace {

using testing::Combine;
using testing::Values;

std::vector<uint16_t> random_bf16(size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<uint16_t> values(count);
  for (uint16_t& value : values) value = to_bfloat16(normal(random)).bits;
  return values;
}

float at(const std::vector<uint16_t>& values, int64_t index) {
  return to_float(BFloat16{values[static_cast<size_t>(index)]});
}

void run(const char* kernel, const simt::Grid& grid, const void* parameters) {
  ASSERT_NE(simt::find_kernel(kernel), nullptr) << kernel;
  EXPECT_EQ(simt::run(*simt::find_kernel(kernel), grid, parameters), "");
}

/// The sum of a block of 256 threads over strided elements, by the same additions.
float block_sum_of_squares(const std::vector<uint16_t>& x, int64_t first, int64_t columns) {
  const auto butterfly = [](std::vector<float> lanes) {
    for (size_t mask = 16; mask > 0; mask /= 2) {
      std::vector<float> next(32);
      for (size_t lane = 0; lane < 32; ++lane) next[lane] = lanes[lane] + lanes[lane ^ mask];
      lanes = next;
    }
    return lanes[0];
  };
  std::vector<float> warps(32, 0.0f);
  for (int64_t warp = 0; warp < 8; ++warp) {
    std::vector<float> lanes(32, 0.0f);
    for (int64_t lane = 0; lane < 32; ++lane) {
      for (int64_t i = warp * 32 + lane; i < columns; i += 256) {
        lanes[lane] = std::fma(at(x, first + i), at(x, first + i), lanes[lane]);
      }
    }
    warps[warp] = butterfly(lanes);
  }
  return butterfly(warps);
}

class Kernels : public testing::TestWithParam<simt::Order> {};

TEST_P(Kernels, NormRows) {
  for (const int columns : {7, 64, 576, 1000}) {
    constexpr int kRows = 3;
    const std::vector<uint16_t> x = random_bf16(static_cast<size_t>(kRows * columns), 1);
    const std::vector<uint16_t> weight = random_bf16(static_cast<size_t>(columns), 2);
    for (const bool has_offset : {false, true}) {
      std::vector<uint16_t> y(x.size(), 0x7fff);
      const RmsNormParameters parameters{
          .x = x.data(),
          .y = y.data(),
          .x_stride = columns,
          .y_stride = columns,
          .norm = {weight.data(), nullptr, 1e-5f, has_offset ? 1.0f : 0.0f, has_offset, 0, 1},
          .rows = {nullptr, kRows},
          .groups = 1,
          .columns = columns};
      run("rms_norm_bf16", {.blocks = kRows, .threads = kNormThreads, .shared_bytes = 256, .order = GetParam()},
          &parameters);
      for (int64_t row = 0; row < kRows; ++row) {
        const float mean = block_sum_of_squares(x, row * columns, columns) / static_cast<float>(columns);
        const float inverse = 1.0f / std::sqrt(mean + 1e-5f);
        for (int64_t i = 0; i < columns; ++i) {
          float value = at(x, row * columns + i) * inverse;
          if (!has_offset) value = to_float(to_bfloat16(value));
          const BFloat16 expected = to_bfloat16((at(weight, i) + parameters.norm.offset) * value);
          ASSERT_EQ(y[static_cast<size_t>(row * columns + i)], expected.bits) << columns << " " << row << " " << i;
        }
      }
    }
  }
}

struct Product {
  int rows, columns, outputs;
  bool is_float = false;
  bool has_bias = false;
};

/// Expects of `product_few` the bits that `product` has written.
void expect_as_few(const ProductParameters& product, const FragmentPacking& packing, simt::Order order) {
  const size_t bytes =
      static_cast<size_t>(product.rows.rows) * static_cast<size_t>(product.outputs) * (product.is_float != 0 ? 4 : 2);
  std::vector<std::byte> y(bytes, std::byte{0xff});
  ProductFewParameters few{};
  few.product = product;
  few.product.y = y.data();
  few.x_rows = product.rows.rows;
  few.columns = static_cast<int32_t>(packing.columns);
  few.fold = kFoldChain;
  few.row_stride = static_cast<int32_t>(few_row_stride(packing.k_steps(), 2));
  const std::vector<SumPart> parts(product.parts, product.parts + product.part_count);
  few.warp_steps = static_cast<int32_t>(most_warp_steps(parts, 1, kProductWarps));
  few.shared_bytes = static_cast<int32_t>(
      product_few_bytes(product.part_count, kProductWarps * few.warp_steps, product.rows.rows, packing.k_steps(), 2));
  run("product_few_bf16",
      {.blocks = static_cast<int>(std::min<int64_t>(2, packing.tiles())),
       .threads = kProductThreads,
       .shared_bytes = static_cast<size_t>(few.shared_bytes),
       .order = order},
      &few);
  EXPECT_EQ(std::memcmp(y.data(), product.y, bytes), 0);
}

/// The result as f32 values.
std::vector<float> multiply(const Product& shape, const std::vector<uint16_t>& x, const std::vector<uint16_t>& w,
                            const std::vector<uint16_t>& bias, simt::Order order) {
  const FragmentPacking packing{DType::kBFloat16, shape.outputs, shape.columns, shape.columns};
  std::vector<uint16_t> packed(static_cast<size_t>(packing.bytes() / 2 + 8));
  uint16_t* aligned = packed.data() + (16 - reinterpret_cast<uintptr_t>(packed.data()) % 16) % 16 / 2;
  packing.pack(std::as_bytes(std::span(w)),
               std::as_writable_bytes(std::span(aligned, static_cast<size_t>(packing.bytes() / 2))));
  const auto size = static_cast<size_t>(shape.rows) * static_cast<size_t>(shape.outputs);
  std::vector<float> y(size, std::nanf(""));
  std::vector<uint16_t> narrow(size, 0x7fff);
  const std::vector<SumPart> parts = plain_parts(shape.columns);
  const ProductParameters parameters{.weights = aligned,
                                     .x = x.data(),
                                     .bias = shape.has_bias ? bias.data() : nullptr,
                                     .y = shape.is_float ? static_cast<void*>(y.data()) : narrow.data(),
                                     .parts = parts.data(),
                                     .x_stride = shape.columns,
                                     .y_stride = shape.outputs,
                                     .y_plane = 0,
                                     .rows = {nullptr, shape.rows},
                                     .outputs = shape.outputs,
                                     .k_steps = static_cast<int32_t>(packing.k_steps()),
                                     .part_count = static_cast<int32_t>(parts.size()),
                                     .is_float = shape.is_float};
  run("product_bf16",
      {.blocks = static_cast<int>(packing.tiles()),
       .threads = kProductThreads,
       .shared_bytes = kProductSharedBytes,
       .order = order},
      &parameters);
  if (shape.rows <= kTileRows) expect_as_few(parameters, packing, order);
  if (!shape.is_float) {
    for (size_t i = 0; i < size; ++i) y[i] = to_float(BFloat16{narrow[i]});
  }
  return y;
}

TEST_P(Kernels, MultiplyInTheOrderThatKAloneFixes) {
  for (const Product& shape : {Product{1, 576, 40, true}, Product{9, 200, 17, true, true}, Product{40, 33, 16},
                               Product{2, 16, 16, true}, Product{33, 128, 5, false, true}}) {
    const std::vector<uint16_t> x = random_bf16(static_cast<size_t>(shape.rows * shape.columns), 3);
    const std::vector<uint16_t> w = random_bf16(static_cast<size_t>(shape.outputs * shape.columns), 4);
    const std::vector<uint16_t> bias = random_bf16(static_cast<size_t>(shape.outputs), 5);
    const std::vector<float> y = multiply(shape, x, w, bias, GetParam());
    const int64_t steps = (shape.columns + 15) / 16;
    for (int64_t row = 0; row < shape.rows; ++row) {
      for (int64_t output = 0; output < shape.outputs; ++output) {
        float sum = 0.0f;
        for (int64_t segment = 0; segment < kPlainParts; ++segment) {
          float part = 0.0f;
          const int64_t end = std::min<int64_t>(steps * (segment + 1) / kPlainParts * 16, shape.columns);
          for (int64_t k = steps * segment / kPlainParts * 16; k < end; ++k) {
            part = std::fma(at(w, output * shape.columns + k), at(x, row * shape.columns + k), part);
          }
          sum = segment == 0 ? part : sum + part;
        }
        if (shape.has_bias) sum = sum + at(bias, output);
        const float expected = shape.is_float ? sum : to_float(to_bfloat16(sum));
        ASSERT_EQ(y[static_cast<size_t>(row * shape.outputs + output)], expected) << row << " " << output;
      }
    }
  }
}

TEST_P(Kernels, MultiplyARowAloneAsAmongOthers) {
  const Product many{37, 320, 24, true};
  const std::vector<uint16_t> x = random_bf16(static_cast<size_t>(many.rows * many.columns), 6);
  const std::vector<uint16_t> w = random_bf16(static_cast<size_t>(many.outputs * many.columns), 7);
  const std::vector<float> all = multiply(many, x, w, {}, GetParam());
  for (const int row : {0, 7, 8, 36}) {
    const Product one{1, many.columns, many.outputs, true};
    const auto begin = x.begin() + row * many.columns;
    const std::vector<float> alone = multiply(one, {begin, begin + many.columns}, w, {}, GetParam());
    const auto among = all.begin() + row * many.outputs;
    EXPECT_TRUE(std::equal(alone.begin(), alone.end(), among)) << row;
  }
}

INSTANTIATE_TEST_SUITE_P(InThreeOrders, Kernels, Values(simt::Order::kUp, simt::Order::kDown, simt::Order::kShuffled));

TEST(FragmentPacking, PlacesEachElementOnce) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const int64_t leaf : {50, 20}) {  // leaves are padded to whole steps
      const FragmentPacking packing{dtype, 35, 50, leaf};
      EXPECT_EQ(packing.k_steps(), leaf == 50 ? 4 : 5);
      const int64_t elements = packing.bytes() / static_cast<int64_t>(size_of(dtype));
      std::vector<int> uses(static_cast<size_t>(elements));
      for (int64_t output = 0; output < packing.outputs; ++output) {
        for (int64_t column = 0; column < packing.columns; ++column) {
          ++uses[static_cast<size_t>(packing.index(output, column))];
        }
      }
      EXPECT_EQ(std::count(uses.begin(), uses.end(), 1), 35 * 50);
      EXPECT_EQ(std::count(uses.begin(), uses.end(), 0), elements - 35 * 50);
    }
  }
}

TEST(SumParts, FollowTheTree) {
  // Three ranks' leaves of 20 columns, the last one narrower.
  const BlockSplit split{{0, 2, 3, 5}};
  const std::vector<SumPart> first = block_parts(split, 0, 20, 40), last = block_parts(split, 2, 20, 33);
  ASSERT_EQ(first.size(), 2u);
  EXPECT_EQ(first[0].root, -1);
  EXPECT_EQ(first[1].merges, 1);  // leaves 0 and 1 are a subtree
  EXPECT_EQ(first[1].root, 0);
  EXPECT_EQ(first[1].first_step, 2);
  EXPECT_EQ(first[1].first_column, 20);
  ASSERT_EQ(last.size(), 2u);
  EXPECT_EQ(last[0].root, 0);  // leaf 3 ends a subtree with leaf 2, which another rank holds
  EXPECT_EQ(last[1].root, 1);
  EXPECT_EQ(last[1].end_column, 33);
  EXPECT_EQ(last[1].steps, 1);
}

TEST(SumParts, CutAPlainSumByItsColumnsAlone) {
  int32_t next = 0;
  for (const SumPart& part : plain_parts(200)) {
    EXPECT_EQ(part.first_step, next);
    EXPECT_EQ(part.merges, part.first_step == 0 ? 0 : 1);
    next += part.steps;
  }
  EXPECT_EQ(next, 13);
  EXPECT_TRUE(fits_stack(plain_parts(200)));
}

TEST(SineAndCosine, AreThoseOfTheAngleInDoublePrecision) {
  for (const float frequency : {1.0f, 0.37f, 1e-4f}) {
    const std::vector<int32_t> position = {0, 1, 5, 1000, 131071, 1048575};
    std::vector<float> cosines(position.size()), sines(position.size());
    const TurnTableParameters parameters{.position = position.data(),
                                         .frequencies = &frequency,
                                         .long_frequencies = nullptr,
                                         .is_long = nullptr,
                                         .slot = nullptr,
                                         .cosines = cosines.data(),
                                         .sines = sines.data(),
                                         .rows = {nullptr, static_cast<int32_t>(position.size())},
                                         .slots = 0,
                                         .half = 1,
                                         .scale = 1.0f};
    run("turn_table", {.blocks = 1, .threads = kTurnThreads}, &parameters);
    for (size_t i = 0; i < position.size(); ++i) {
      const double angle = static_cast<float>(position[i]) * frequency;
      EXPECT_NEAR(cosines[i], std::cos(angle), 6e-8) << position[i];
      EXPECT_NEAR(sines[i], std::sin(angle), 6e-8) << position[i];
    }
  }
}

TEST(Quantise, GivesTheIntegersAndScalesOfTheHost) {
  const ColumnGroups groups{.columns = 70, .leaf = 40, .width = 16};
  std::mt19937 random(9);
  std::normal_distribution<float> normal;
  std::vector<float> x(3 * 70);
  for (float& value : x) value = normal(random);
  std::fill_n(x.begin() + 16, 16, 0.0f);  // a group of zeros
  x[70 + 41] = std::numeric_limits<float>::infinity();
  const auto count = static_cast<int32_t>(groups.count());
  std::vector<uint32_t> integers(static_cast<size_t>(3 * count * 4), 0xdeadbeef);
  std::vector<float> scales(static_cast<size_t>(3 * count));
  std::vector<int32_t> sums(scales.size());
  const QuantiseParameters parameters{.x = x.data(),
                                      .integers = integers.data(),
                                      .scales = scales.data(),
                                      .sums = sums.data(),
                                      .x_stride = 70,
                                      .rows = {nullptr, 3},
                                      .rows_of_one = 1,
                                      .cut = {70, 40, 16, count, 4}};
  run("quantise_f32", {.blocks = (3 * count + 7) / 8, .threads = kQuantiseThreads}, &parameters);
  for (int32_t row = 0; row < 3; ++row) {
    for (int32_t group = 0; group < count; ++group) {
      const Range columns = groups.of(group);
      std::vector<int8_t> expected(16);
      const float scale = to_int8(x.data() + row * 70 + columns.begin, columns.size(), expected.data());
      const size_t at = static_cast<size_t>(row * count + group);
      EXPECT_EQ(std::bit_cast<uint32_t>(scales[at]) & 0x7fffffffu, std::bit_cast<uint32_t>(scale) & 0x7fffffffu);
      EXPECT_EQ(std::memcmp(&integers[at * 4], expected.data(), 16), 0) << row << " " << group;
      EXPECT_EQ(sums[at], std::accumulate(expected.begin(), expected.end(), 0)) << row << " " << group;
    }
  }
}

}  // namespace
}  // namespace lockstep::cuda
