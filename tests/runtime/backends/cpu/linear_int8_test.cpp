// Products in 8 bits against their definition (runtime/core/int8_groups.h), to the bit.
#include "runtime/backends/cpu/linear_int8.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "runtime/backends/cpu/fused_linear.h"
#include "tests/runtime/backends/cpu/product_fixture.h"

namespace lockstep::cpu {
namespace {

struct Shape8 {
  ProductShape of;
  int64_t group = 32;
};
/// Odd sizes, tails of steps, groups, strips and panels, K longer than a slab.
const std::vector<Shape8> kShapes = {
    {{1, 1, 1}, 4},   {{1, 16, 7}, 4},     {{2, 17, 33}, 16},    {{3, 64, 64}, 64},    {{5, 65, 31}, 128},
    {{6, 48, 2}, 32}, {{7, 100, 129}, 32}, {{13, 130, 257}, 64}, {{8, 33, 4300}, 128}, {{25, 72, 1030}, 1024}};

/// Operands of a product and ways to compute it.
struct Product8 {
  const Kernels& kernels;
  DType dtype;
  Shape8 shape;
  std::vector<float> x = random_numbers(shape.of.rows * shape.of.k, 1);
  std::vector<float> w = random_numbers(shape.of.n * shape.of.k, 2);
  DType result_type = DType::kFloat32;
  std::vector<float> bias = {};  // [n], or empty: none

  ColumnGroups groups(int64_t leaf) const { return {.columns = shape.of.k, .leaf = leaf, .width = shape.group}; }

  /// f32 [roots, rows, n]. With a split: the roots of `rank`, w and x being that rank's columns.
  std::vector<float> run(int workers = 1, const std::optional<BlockSplit>& split = {}, int rank = 0,
                         int64_t block = 1) const {
    const auto& [rows, n, k] = shape.of;
    const Int8Packing packing{.n = n, .groups = groups(split ? block : std::max<int64_t>(k, 1)), .dtype = dtype};
    std::vector<std::byte> packed(static_cast<size_t>(packing.bytes()));
    pack_int8(kernels, packing, encode(w, dtype).data(), packed.data());
    std::vector<std::byte> x_bytes = encode(x, dtype);
    const int64_t roots = split ? static_cast<int64_t>(split->roots_of(rank).size()) : 1;
    std::vector<float> result(static_cast<size_t>(roots * rows * n), -77.0f);
    std::vector<std::byte> rounded = encode(result, result_type);
    Tensor from{.data = x_bytes.data(), .dtype = dtype, .rows = rows, .columns = k};
    from.stride = k * from.element_size();
    const Tensor to{.data = rounded.data(),
                    .dtype = result_type,
                    .planes = roots,
                    .rows = rows,
                    .columns = n,
                    .stride = n * static_cast<int64_t>(size_of(result_type))};
    const Int8Weight weight{packing, packed.data()};
    Int8LinearTask task = split ? Int8LinearTask::blocks(kernels, weight, *split, rank, from, to)
                                : Int8LinearTask::plain(kernels, weight, from, to);
    const std::vector<std::byte> encoded_bias = encode(bias, dtype);
    if (!bias.empty()) task.bias = encoded_bias.data();
    task.bias_type = dtype;
    // NaN in the scratch: nothing may be read that was not written before.
    std::vector<float> arranged(static_cast<size_t>(task.arranged_bytes() / 4 + 1), __builtin_nanf(""));
    std::vector<float> scratch(static_cast<size_t>(task.private_bytes() / 4), __builtin_nanf(""));
    const auto as_bytes = [](std::vector<float>& floats) { return reinterpret_cast<std::byte*>(floats.data()); };
    for (int worker = 0; worker < workers; ++worker) task.arrange_rows(as_bytes(arranged), {worker, workers});
    for (int worker = 0; worker < workers; ++worker) {
      task.run(as_bytes(arranged), as_bytes(scratch), task.share({worker, workers}));
    }
    kernels.convert({rounded.data(), result_type}, {as_bytes(result), DType::kFloat32},
                    static_cast<int64_t>(result.size()));
    return result;
  }

  /// One element as the definition has it; a multiplication and an addition are fused where the kernels fuse them.
  float element(int64_t row, int64_t column, const ColumnGroups& cut) const {
    float sum = 0.0f;
    for (int64_t g = 0; g < cut.count(); ++g) {
      const Range of = cut.of(g);
      std::vector<int8_t> x8(static_cast<size_t>(of.size())), w8(x8.size());
      const float x_scale = to_int8(x.data() + row * shape.of.k + of.begin, of.size(), x8.data());
      const float w_scale = to_int8(w.data() + column * shape.of.k + of.begin, of.size(), w8.data());
      int32_t dot = 0;
      for (size_t i = 0; i < x8.size(); ++i) dot += x8[i] * w8[i];
      const float scaled = static_cast<float>(dot) * w_scale;
      sum = kernels.isa == Isa::kPortable ? scaled * x_scale + sum : std::fma(scaled, x_scale, sum);
    }
    return sum;
  }

  /// Only the first rows of x.
  Product8 with_rows(int64_t rows) const {
    Product8 part = *this;
    part.shape.of.rows = rows;
    part.x.resize(static_cast<size_t>(rows * shape.of.k));
    return part;
  }

  /// Only these columns of x and w.
  Product8 with_columns(int64_t begin, int64_t end) const {
    Product8 part = *this;
    part.shape.of.k = end - begin;
    const auto cut = [&](const std::vector<float>& from, std::vector<float>& to) {
      to.clear();
      for (size_t at = 0; at < from.size(); at += static_cast<size_t>(shape.of.k)) {
        to.insert(to.end(), from.begin() + at + begin, from.begin() + at + end);
      }
    };
    cut(x, part.x);
    cut(w, part.w);
    return part;
  }
};

class LinearInt8 : public OnEveryMachine {};

INSTANTIATE_TEST_SUITE_P(EveryIsa, LinearInt8, every_isa_and_dtype(), name_of_isa_and_dtype);

/// As a stage in which each worker makes or takes all rows, quantises them for itself and has a share of both halves.
TEST_P(LinearInt8, QuantisesRowsInEveryWorkerAloneWithTheSameBits) {
  const Product8 product{kernels(), dtype(), {{3, 2 * 80, 200}, 64}};
  const auto& [rows, n, k] = product.shape.of;
  const std::vector<float> expected = product.run();
  const Int8Packing packing{.n = n, .groups = product.groups(k), .dtype = dtype()};
  std::vector<std::byte> packed(static_cast<size_t>(packing.bytes()));
  pack_int8(kernels(), packing, encode(product.w, dtype()).data(), packed.data());
  std::vector<std::byte> x = encode(product.x, dtype());
  for (const bool is_made : {false, true}) {
    std::vector<float> found(expected.size());
    Tensor from{.data = is_made ? nullptr : x.data(), .dtype = dtype(), .rows = rows, .columns = k};
    from.stride = k * from.element_size();
    const Tensor to{.data = reinterpret_cast<std::byte*>(found.data()), .rows = rows, .columns = n, .stride = n * 4};
    FusedLinear fused(Int8LinearTask::plain(kernels(), {packing, packed.data()}, from, to));
    fused.take_halves();
    fused.arrange_alone();
    if (is_made) {
      fused.make_rows(
          [&](int64_t row, std::byte* dst) { std::memcpy(dst, x.data() + row * from.stride, from.stride); });
    }
    EXPECT_EQ(fused.shared_bytes(), 0);
    for (const int workers : {1, 2, 3, 7}) {
      std::fill(found.begin(), found.end(), -77.0f);
      for (int worker = 0; worker < workers; ++worker) {
        std::vector<float> scratch(static_cast<size_t>(fused.private_bytes() / 4), __builtin_nanf(""));
        fused.run(nullptr, reinterpret_cast<std::byte*>(scratch.data()), {worker, workers});
      }
      EXPECT_TRUE(same_bits(found, expected)) << is_made << " " << workers;
    }
  }
}

TEST_P(LinearInt8, MultipliesEveryShapeAsDefined) {
  for (const Shape8& shape : kShapes) {
    const Product8 product{kernels(), dtype(), shape};
    const std::vector<float> found = product.run();
    for (int64_t row = 0; row < shape.of.rows; ++row) {
      for (int64_t n = 0; n < shape.of.n; n += 3) {
        ASSERT_EQ(found[row * shape.of.n + n], product.element(row, n, product.groups(shape.of.k)))
            << shape.of.rows << "x" << shape.of.n << "x" << shape.of.k << " at " << row << "," << n;
      }
    }
  }
}

TEST_P(LinearInt8, GivesARowTheSameBitsWhateverTheOtherRowsAndWorkers) {
  for (const Shape8& shape : kShapes) {
    const Product8 product{kernels(), dtype(), shape};
    const std::vector<float> together = product.run();
    for (int workers : {2, 3, 7}) EXPECT_TRUE(same_bits(product.run(workers), together)) << workers;
    for (int64_t row = 0; row < shape.of.rows; ++row) {
      Product8 alone{kernels(), dtype(), {{1, shape.of.n, shape.of.k}, shape.group}};
      alone.x.assign(product.x.begin() + row * shape.of.k, product.x.begin() + (row + 1) * shape.of.k);
      const auto begin = together.begin() + row * shape.of.n;
      EXPECT_TRUE(same_bits(alone.run(), {begin, begin + shape.of.n})) << "row " << row << " of " << shape.of.rows;
    }
  }
}

/// Finishes the tree of `split` over the roots of all ranks.
std::vector<float> sum_over_ranks(const Product8& product, const BlockSplit& split, int64_t block) {
  const TreeFinish finish = plan_finish(split);
  const auto elements = static_cast<size_t>(product.shape.of.rows * product.shape.of.n);
  std::vector<std::vector<float>> roots;
  for (int rank = 0; rank < split.ranks(); ++rank) {
    const Range leaves = split.range_of(rank);
    const int64_t end = std::min(leaves.end * block, product.shape.of.k);
    if (leaves.size() == 0) continue;
    const std::vector<float> own = product.with_columns(leaves.begin * block, end).run(2, split, rank, block);
    for (size_t at = 0; at < own.size(); at += elements)
      roots.emplace_back(own.begin() + at, own.begin() + at + elements);
  }
  for (const TreeFinish::Step& step : finish.steps) {
    for (size_t i = 0; i < elements; ++i) roots[step.dst][i] += roots[step.src][i];
  }
  return roots[finish.result];
}

TEST_P(LinearInt8, SumsBlocksToTheSameBitsAtEveryDegree) {
  struct Case {
    int64_t leaves, block, k, group;
  };
  // The last leaf may be narrower, a leaf may be a group, many groups, or less than a step.
  for (const Case& c : {Case{9, 16, 144, 16}, Case{7, 5, 33, 4}, Case{5, 3, 15, 32}, Case{3, 1100, 2500, 128},
                        Case{13, 1, 13, 4}, Case{4, 72, 280, 32}}) {
    const Product8 product{kernels(), dtype(), {{7, 33, c.k}, c.group}};
    const std::vector<float> alone = sum_over_ranks(product, BlockSplit{{0, c.leaves}}, c.block);
    for (int64_t cut = 0; cut <= c.leaves; ++cut) {
      EXPECT_TRUE(same_bits(sum_over_ranks(product, BlockSplit{{0, cut, c.leaves}}, c.block), alone))
          << c.leaves << " leaves of " << c.block << " cut at " << cut;
    }
    const BlockSplit three{{0, c.leaves / 3, c.leaves / 2, c.leaves}};
    EXPECT_TRUE(same_bits(sum_over_ranks(product, three, c.block), alone));
  }
}

TEST_P(LinearInt8, GivesTheSameBitsWhereManyPanelsPassInOneCall) {
  // Five panels and two and a half strips; a plain sum, then ranks with two roots each, of leaves of two groups.
  const BlockSplit split{{0, 3, 7}};
  for (const DType result : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    for (const bool has_bias : {false, true}) {
      Product8 most{kernels(), dtype(), {{20, 5 * 64 + 40, 7 * 24}, 16}};
      most.result_type = result;
      if (has_bias) most.bias = random_numbers(most.shape.of.n, 3);
      for (int rank = -1; rank < 2; ++rank) {
        const Product8 own = rank < 0 ? most : most.with_columns(rank * 72, rank == 0 ? 72 : 168);
        const auto run = [&](const Product8& some, int workers) {
          return rank < 0 ? some.run(workers) : some.run(workers, split, rank, 24);
        };
        const std::vector<float> all = run(own, 1);  // in tiles of many rows, a panel at a time
        for (int64_t rows = 1; rows <= 7; ++rows) {
          const std::vector<float> found = run(own.with_rows(rows), rows % 2 == 0 ? 1 : 2);
          const int64_t plane = rows * own.shape.of.n, roots = std::ssize(found) / plane;
          EXPECT_EQ(roots, rank < 0 ? 1 : 2);
          for (int64_t root = 0; root < roots; ++root) {
            const auto expected = all.begin() + root * 20 * own.shape.of.n;
            EXPECT_TRUE(same_bits({found.begin() + root * plane, found.begin() + (root + 1) * plane},
                                  {expected, expected + plane}))
                << "rank " << rank << ", root " << root << ", " << rows << " rows, result " << to_string(result);
          }
        }
      }
    }
  }
}

TEST_P(LinearInt8, SumsTheGroupsOfALeafAsDefined) {
  const Product8 product{kernels(), dtype(), {{2, 20, 100}, 16}};
  const std::vector<float> roots = product.run(1, BlockSplit{{0, 1, 2}}, 0, 100);
  for (int64_t n = 0; n < 20; ++n) EXPECT_EQ(roots[n], product.element(0, n, product.groups(100)));
}

TEST_P(LinearInt8, MakesNanOfARowThatHoldsNoNumberAndOfNoOther) {
  for (const float odd : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    Product8 product{kernels(), dtype(), {{8, 35, 77}, 32}};
    const std::vector<float> before = product.run();
    product.x[3 * 77 + 70] = odd;
    product.w[5 * 77 + 1] = odd;
    const std::vector<float> after = product.run();
    for (int64_t row = 0; row < 8; ++row) {
      for (int64_t n = 0; n < 35; ++n) {
        const float found = after[row * 35 + n];
        if (row == 3 || n == 5) {
          EXPECT_TRUE(std::isnan(found)) << row << "," << n;
        } else {
          EXPECT_EQ(found, before[row * 35 + n]) << row << "," << n;
        }
      }
    }
  }
}

/// Over everything on this machine that multiplies bytes.
class Int8KernelsOf : public ::testing::TestWithParam<Int8Isa> {
 protected:
  const Int8Kernels& kernels() const { return int8_kernels_of(GetParam()); }
};

INSTANTIATE_TEST_SUITE_P(EveryIsa, Int8KernelsOf, ::testing::ValuesIn(available_int8_isas()),
                         [](const auto& test) { return "isa" + std::to_string(static_cast<int>(test.param)); });

TEST_P(Int8KernelsOf, QuantiseAsDefined) {
  for (int64_t count : {1, 3, 4, 15, 16, 17, 64, 130, 1024}) {
    std::vector<float> values = random_numbers(count, static_cast<uint32_t>(count));
    for (float& value : values) value = value * 3.7f + 0.01f;
    std::vector<int8_t> expected(static_cast<size_t>(count)), found(static_cast<size_t>(count + 3) / 4 * 4, 77);
    const float scale = to_int8(values.data(), count, expected.data());
    const Int8Group group = kernels().quantise(values.data(), count, found.data());
    EXPECT_EQ(group.scale, scale);
    expected.resize(found.size(), 0);
    EXPECT_EQ(found, expected) << count;
    int32_t sum = 0;
    for (const int8_t integer : expected) sum += integer;
    EXPECT_EQ(group.sum, sum);
  }
}

TEST_P(Int8KernelsOf, SumTheLargestProductsExactly) {
  // Bytes whose pairs of products leave 16 bits unless they are signed, over the longest group.
  for (const int8_t of_x : {int8_t{127}, int8_t{-127}}) {
    for (const int of_w : {127, -127, 0}) {
      constexpr int64_t kSteps = kMostInt8Group / kInt8Columns;
      std::vector<uint8_t> weights(kSteps * kInt8StripStep, static_cast<uint8_t>(of_w + 128));
      const std::vector<float> scales(kStrip, 0.5f);
      weights.insert(weights.end(), reinterpret_cast<const uint8_t*>(scales.data()),
                     reinterpret_cast<const uint8_t*>(scales.data() + kStrip));
      const std::vector<int8_t> x(kMostInt8Group, of_x);
      const float x_scale = 2.0f;
      const int32_t offset = -128 * of_x * int32_t{kMostInt8Group};
      Int8Product product;
      product.operands.weights = reinterpret_cast<const std::byte*>(weights.data());
      product.operands.step_stride = kInt8StripStep;
      product.operands.x = reinterpret_cast<const std::byte*>(x.data());
      product.operands.x_scales = &x_scale;
      product.operands.x_offsets = &offset;
      product.operands.rows = 1;
      product.operands.strips = 1;
      product.groups = 1;
      product.last_steps = kSteps;
      for (const auto multiply : {kernels().product, kernels().tiled_product}) {
        if (multiply == nullptr) continue;
        std::vector<float> sums(kStrip, 1.0f);
        product.sums = sums.data();
        multiply(product);
        for (const float sum : sums) EXPECT_EQ(sum, 1.0f + static_cast<float>(of_x * of_w * kMostInt8Group));
      }
    }
  }
}

TEST(LinearInt8Kernels, AgreeToTheBitWhereverMultiplicationAndAdditionAreFused) {
  // Rows in one tile and in three; groups of whole blocks of 16 steps, of less, and with a rest.
  for (const Shape8& shape : {Shape8{{7, 65, 300}, 64}, Shape8{{37, 65, 300}, 28}, Shape8{{16, 64, 1100}, 128}}) {
    std::vector<float> first;
    for (const Isa isa : available_isas()) {
      if (isa == Isa::kPortable) continue;
      const std::vector<float> found = Product8{kernels_for(isa), DType::kFloat32, shape}.run();
      if (first.empty()) first = found;
      EXPECT_TRUE(same_bits(found, first)) << to_string(isa) << ", " << shape.of.rows << " rows";
    }
  }
}

}  // namespace
}  // namespace lockstep::cpu
