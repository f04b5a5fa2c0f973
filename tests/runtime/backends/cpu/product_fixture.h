// Matrix products over random data, run directly on the kernels: x [rows, k] · w [n, k]ᵀ.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <optional>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "runtime/backends/cpu/linear.h"
#include "tests/same_bits.h"

namespace lockstep::cpu {

/// Numbers in [-1, 1) that every dtype holds exactly, so that a reference sum sees what the kernels see.
inline std::vector<float> random_numbers(int64_t count, uint32_t seed) {
  std::minstd_rand random(seed);
  std::vector<float> numbers(static_cast<size_t>(count));
  for (float& number : numbers) number = (static_cast<float>(random() % 256) - 128.0f) / 128.0f;
  return numbers;
}

inline std::vector<std::byte> encode(const std::vector<float>& numbers, DType dtype) {
  std::vector<std::byte> bytes(numbers.size() * size_of(dtype));
  convert_elements(reinterpret_cast<const std::byte*>(numbers.data()), DType::kFloat32, bytes.data(), dtype,
                   numbers.size());
  return bytes;
}

/// Tests that run on every instruction set and type.
class OnEveryMachine : public ::testing::TestWithParam<std::tuple<Isa, DType>> {
 protected:
  static const Kernels& kernels() { return kernels_for(std::get<0>(GetParam())); }
  static DType dtype() { return std::get<1>(GetParam()); }
};

inline auto every_isa_and_dtype() {
  return ::testing::Combine(::testing::ValuesIn(available_isas()),
                            ::testing::Values(DType::kFloat32, DType::kBFloat16, DType::kFloat16));
}
inline std::string name_of_isa_and_dtype(const ::testing::TestParamInfo<std::tuple<Isa, DType>>& test) {
  return std::string(to_string(std::get<0>(test.param))) + "_" +
         std::string(lockstep::to_string(std::get<1>(test.param)));
}

struct ProductShape {
  int64_t rows = 1;
  int64_t n = 1;
  int64_t k = 1;
};

/// A product's operands, and ways to compute it.
struct ProductFixture {
  const Kernels& kernels;
  DType dtype;
  ProductShape shape;
  std::vector<float> x = random_numbers(shape.rows * shape.k, 1);
  std::vector<float> w = random_numbers(shape.n * shape.k, 2);
  DType result_type = DType::kFloat32;
  std::vector<float> bias = {};  // [n], or empty: none

  /// f32 [roots, rows, n] by `workers` workers, one after the other. With a split: the roots of `rank`, w and x being
  /// that rank's columns.
  std::vector<float> run(int workers = 1, const std::optional<BlockSplit>& split = {}, int rank = 0,
                         int64_t block = 1) const {
    const bool pairs = kernels.bf16_pairs && dtype == DType::kBFloat16;
    const Packing packing = Packing::for_leaves(shape.n, shape.k, split ? block : shape.k, dtype, pairs);
    std::vector<std::byte> packed(static_cast<size_t>(packing.bytes()));
    pack(packing, encode(w, dtype).data(), packed.data());
    std::vector<std::byte> x_bytes = encode(x, dtype);
    const int64_t roots = split ? static_cast<int64_t>(split->roots_of(rank).size()) : 1;
    std::vector<float> result(static_cast<size_t>(roots * shape.rows * shape.n), -77.0f);
    std::vector<std::byte> rounded = encode(result, result_type);

    Tensor from{.data = x_bytes.data(), .dtype = dtype, .rows = shape.rows, .columns = shape.k};
    from.stride = shape.k * from.element_size();
    const Tensor to{.data = rounded.data(),
                    .dtype = result_type,
                    .planes = roots,
                    .rows = shape.rows,
                    .columns = shape.n,
                    .stride = shape.n * static_cast<int64_t>(size_of(result_type))};
    LinearPlan plan = split ? LinearPlan::blocks(packing, *split, rank, block) : LinearPlan::plain(packing);
    LinearTask task = LinearTask::make(kernels, {packing, packed.data()}, plan, from, to);
    const std::vector<std::byte> encoded_bias = encode(bias, dtype);
    if (!bias.empty()) task.bias = encoded_bias.data();
    task.bias_type = dtype;
    // NaN in the scratch: nothing may be read that was not written before.
    std::vector<float> arranged(static_cast<size_t>(task.arranged_bytes() / 4 + 1), __builtin_nanf(""));
    std::vector<float> scratch(static_cast<size_t>(task.private_bytes() / 4), __builtin_nanf(""));
    const auto as_bytes = [](std::vector<float>& floats) { return reinterpret_cast<std::byte*>(floats.data()); };
    for (int worker = 0; task.arrange && worker < workers; ++worker) {
      task.arrange_rows(as_bytes(arranged), {worker, workers});
    }
    for (int worker = 0; worker < workers; ++worker) {
      task.run(as_bytes(arranged), as_bytes(scratch), task.share({worker, workers}));
    }
    kernels.convert({rounded.data(), result_type}, {as_bytes(result), DType::kFloat32},
                    static_cast<int64_t>(result.size()));
    return result;
  }

  /// The same in double precision.
  std::vector<double> exact() const {
    std::vector<double> sums(static_cast<size_t>(shape.rows * shape.n));
    for (int64_t row = 0; row < shape.rows; ++row) {
      for (int64_t column = 0; column < shape.n; ++column) {
        double sum = 0;
        for (int64_t i = 0; i < shape.k; ++i) sum += double{x[row * shape.k + i]} * w[column * shape.k + i];
        sums[row * shape.n + column] = sum;
      }
    }
    return sums;
  }

  /// Only these rows of x.
  ProductFixture with_rows(int64_t begin, int64_t end) const {
    ProductFixture part{kernels, dtype, {end - begin, shape.n, shape.k}};
    part.x.assign(x.begin() + begin * shape.k, x.begin() + end * shape.k);
    part.w = w;
    part.result_type = result_type;
    part.bias = bias;
    return part;
  }
  /// Only these rows of w.
  ProductFixture with_outputs(int64_t begin, int64_t end) const {
    ProductFixture part{kernels, dtype, {shape.rows, end - begin, shape.k}};
    part.x = x;
    part.w.assign(w.begin() + begin * shape.k, w.begin() + end * shape.k);
    part.result_type = result_type;
    if (!bias.empty()) part.bias.assign(bias.begin() + begin, bias.begin() + end);
    return part;
  }
  /// Only these columns of x and w.
  ProductFixture with_columns(int64_t begin, int64_t end) const {
    ProductFixture part{kernels, dtype, {shape.rows, shape.n, end - begin}};
    const auto cut = [&](const std::vector<float>& from, std::vector<float>& to) {
      to.clear();
      for (size_t row = 0; row < from.size(); row += static_cast<size_t>(shape.k)) {
        to.insert(to.end(), from.begin() + row + begin, from.begin() + row + end);
      }
    };
    cut(x, part.x);
    cut(w, part.w);
    part.result_type = result_type;
    part.bias = bias;
    return part;
  }
};

}  // namespace lockstep::cpu
