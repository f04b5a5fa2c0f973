// The kernels of the CUDA backend on the CPU, to the bit, against plain loops in the same order.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "runtime/backends/cuda/kernels/parameters.h"
#include "runtime/backends/cuda/packing.h"
#include "runtime/core/dtype.h"
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
      const RmsNormParameters parameters{x.data(),  weight.data(), y.data(), columns, 1e-5f, has_offset ? 1.0f : 0.0f,
                                         has_offset};
      run("rms_norm_bf16", {.blocks = kRows, .threads = kRmsNormThreads, .shared_bytes = 128, .order = GetParam()},
          &parameters);
      for (int64_t row = 0; row < kRows; ++row) {
        const float mean = block_sum_of_squares(x, row * columns, columns) / static_cast<float>(columns);
        const float inverse = 1.0f / std::sqrt(mean + 1e-5f);
        for (int64_t i = 0; i < columns; ++i) {
          float value = at(x, row * columns + i) * inverse;
          if (!has_offset) value = to_float(to_bfloat16(value));
          const BFloat16 expected = to_bfloat16((at(weight, i) + parameters.offset) * value);
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

/// The result as f32 values.
std::vector<float> multiply(const Product& shape, const std::vector<uint16_t>& x, const std::vector<uint16_t>& w,
                            const std::vector<uint16_t>& bias, simt::Order order) {
  const FragmentPacking packing{shape.outputs, shape.columns};
  std::vector<uint16_t> packed(static_cast<size_t>(packing.elements() + 8));
  uint16_t* aligned = packed.data() + (16 - reinterpret_cast<uintptr_t>(packed.data()) % 16) % 16 / 2;
  packing.pack(0, w, {aligned, static_cast<size_t>(packing.elements())});
  const auto size = static_cast<size_t>(shape.rows) * static_cast<size_t>(shape.outputs);
  std::vector<float> y(size, std::nanf(""));
  std::vector<uint16_t> narrow(size, 0x7fff);
  const ProductParameters parameters{.weights = aligned,
                                     .x = x.data(),
                                     .bias = shape.has_bias ? bias.data() : nullptr,
                                     .y = shape.is_float ? static_cast<void*>(y.data()) : narrow.data(),
                                     .rows = shape.rows,
                                     .columns = shape.columns,
                                     .k_steps = static_cast<int32_t>(packing.k_steps()),
                                     .outputs = shape.outputs,
                                     .is_float = shape.is_float};
  run("product_bf16",
      {.blocks = static_cast<int>(packing.tiles()), .threads = kProductThreads, .shared_bytes = 16384, .order = order},
      &parameters);
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
        for (int64_t segment = 0; segment < kSegments; ++segment) {
          float part = 0.0f;
          const int64_t end = std::min<int64_t>(steps * (segment + 1) / kSegments * 16, shape.columns);
          for (int64_t k = steps * segment / kSegments * 16; k < end; ++k) {
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
  const FragmentPacking packing{35, 50};
  std::vector<int> uses(static_cast<size_t>(packing.elements()));
  for (int64_t output = 0; output < packing.outputs; ++output) {
    for (int64_t column = 0; column < packing.columns; ++column) {
      ++uses[static_cast<size_t>(packing.index(output, column))];
    }
  }
  EXPECT_EQ(std::count(uses.begin(), uses.end(), 1), 35 * 50);
  EXPECT_EQ(std::count(uses.begin(), uses.end(), 0), packing.elements() - 35 * 50);
}

}  // namespace
}  // namespace lockstep::cuda
