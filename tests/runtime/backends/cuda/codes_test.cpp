// The kernels of weights and caches in codes on the CPU, to the bit, against plain loops in the same order.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "runtime/backends/cuda/coded_packing.h"
#include "runtime/backends/cuda/kernels/parameters.h"
#include "runtime/backends/cuda/kv_layout.h"
#include "runtime/backends/cuda/sum_parts.h"
#include "runtime/core/int8_groups.h"
#include "tests/cuda_stand_in/simt.h"

namespace lockstep::cuda {
namespace {

std::vector<float> random_floats(int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = normal(random);
  return values;
}

void run(const char* kernel, const simt::Grid& grid, const void* parameters) {
  ASSERT_NE(simt::find_kernel(kernel), nullptr) << kernel;
  EXPECT_EQ(simt::run(*simt::find_kernel(kernel), grid, parameters), "");
}

constexpr WeightFormat kFormats[] = {
    {.bits = 4, .group = 32, .scale = ScaleType::kFloat16},
    {.bits = 4, .group = 20, .offset = GroupOffset::kZeros, .scale = ScaleType::kBFloat16},
    {.bits = 4, .group = 4, .offset = GroupOffset::kMinima},
    {.bits = 4, .group = 1, .scale = ScaleType::kFloat16},
    {.bits = 4, .group = 3, .scale = ScaleType::kFloat16},
    {.bits = 8, .group = 16},
    {.bits = 8, .group = 128, .offset = GroupOffset::kZeros, .scale = ScaleType::kFloat16},
    {.bits = 8, .group = 32, .offset = GroupOffset::kMinima, .scale = ScaleType::kFloat16},
    {.kind = CodeKind::kE2M1, .bits = 4, .group = 16, .scale = ScaleType::kPowerOfTwo},
    {.kind = CodeKind::kE4M3, .bits = 8, .group = 64}};

/// A matrix in codes and rows of x.
struct Operands {
  CodedPacking packing;
  std::vector<float> x;
  std::vector<std::byte> packed;
  CodedBuffer buffer;
  CodedRows codes;

  Operands(const CodedPacking& of, int64_t rows) : packing(of), x(random_floats(rows * of.groups.columns, 1)) {
    const std::vector<float> w = random_floats(of.outputs * of.groups.columns, 2);
    const auto bytes = std::as_bytes(std::span(w));
    packed = pack_quantised(of, DType::kFloat32, bytes);
    codes = buffer.rows(of, of.outputs);
    quantise_rows(of, DType::kFloat32, of.outputs, bytes, codes);
  }

  float code(int64_t output, int64_t column) const {
    return code_value(packing.format, codes.codes[static_cast<size_t>(output * packing.groups.columns + column)]);
  }
  float scale(int64_t output, int64_t group) const {
    return codes.scales[static_cast<size_t>(output * packing.groups.count() + group)];
  }
  float offset(int64_t output, int64_t group) const {
    return codes.offsets.empty() ? 0.0f : codes.offsets[static_cast<size_t>(output * packing.groups.count() + group)];
  }

  /// Adds a group as OPERATIONS.md says.
  float add_elements(int64_t row, int64_t output, int64_t group, float sum) const {
    const Range columns = packing.groups.of(group);
    const float zero = packing.format.offset == GroupOffset::kZeros ? offset(output, group) : 0.0f;
    float product = 0.0f, all = 0.0f;
    for (int64_t k = columns.begin; k < columns.end; ++k) {
      const float value = x[static_cast<size_t>(row * packing.groups.columns + k)];
      product = std::fma(value, code(output, k) - zero, product);
      all += value;
    }
    sum = std::fma(product, scale(output, group), sum);
    return packing.format.offset == GroupOffset::kMinima ? std::fma(all, offset(output, group), sum) : sum;
  }
  float add_integers(int64_t row, int64_t output, int64_t group, float sum) const {
    const Range columns = packing.groups.of(group);
    std::vector<int8_t> integers(static_cast<size_t>(columns.size()));
    const float x_scale =
        to_int8(x.data() + row * packing.groups.columns + columns.begin, columns.size(), integers.data());
    const float zero = packing.format.offset == GroupOffset::kZeros ? offset(output, group) : 0.0f;
    float product = 0.0f, all = 0.0f;  // exact
    for (int64_t k = columns.begin; k < columns.end; ++k) {
      const auto value = static_cast<float>(integers[static_cast<size_t>(k - columns.begin)]);
      product += value * (code(output, k) - zero);
      all += value;
    }
    sum = std::fma(product * scale(output, group), x_scale, sum);
    return packing.format.offset == GroupOffset::kMinima ? std::fma(all * offset(output, group), x_scale, sum) : sum;
  }

  /// A sum as the kernel makes it: of even and of odd groups of each part, then of the parts in order.
  float sum(int64_t row, int64_t output, const std::vector<SumPart>& parts, bool is_int8) const {
    float all = 0.0f;
    for (const SumPart& part : parts) {
      float halves[2] = {};
      for (int64_t i = 0; i < part.steps; ++i) {
        float& half = halves[i % 2];
        const int64_t group = part.first_step + i;
        half = is_int8 ? add_integers(row, output, group, half) : add_elements(row, output, group, half);
      }
      const float own = halves[0] + halves[1];
      all = part.merges == 0 ? own : all + own;
    }
    return all;
  }
};

class ProductCodes : public testing::TestWithParam<std::tuple<size_t, int, simt::Order>> {};

TEST_P(ProductCodes, SumGroupsInTheirOrderWhateverTheOtherRowsAre) {
  const auto& [number, rows, order] = GetParam();
  const WeightFormat& format = kFormats[number];
  constexpr int kColumns = 300, kOutputs = 37;
  const Operands operands(
      {.outputs = kOutputs, .groups = {.columns = kColumns, .leaf = kColumns, .width = format.group}, .format = format},
      rows);
  const CodeLayout layout = operands.packing.layout();
  const std::vector<SumPart> parts = plain_group_parts(operands.packing.groups);
  const int64_t groups = rows * operands.packing.groups.count();
  std::vector<uint32_t> integers(static_cast<size_t>(groups * layout.groups.words));
  std::vector<float> x_scales(static_cast<size_t>(groups)), y(static_cast<size_t>(rows * kOutputs), NAN);
  std::vector<int32_t> x_sums(x_scales.size());
  for (const bool is_int8 : {false, true}) {
    if (is_int8 && (format.kind == CodeKind::kE4M3 || !is_int8_group(format.group))) continue;
    const QuantiseParameters quantise{.x = operands.x.data(),
                                      .integers = integers.data(),
                                      .scales = x_scales.data(),
                                      .sums = x_sums.data(),
                                      .x_stride = kColumns,
                                      .rows = {nullptr, rows},
                                      .rows_of_one = 1,
                                      .cut = layout.groups};
    run("quantise_f32", {.blocks = static_cast<int>((groups + 7) / 8), .threads = kQuantiseThreads, .order = order},
        &quantise);
    const ProductCodesParameters product{.operand = {.weights = operands.packed.data(),
                                                     .layout = layout,
                                                     .x = operands.x.data(),
                                                     .integers = is_int8 ? integers.data() : nullptr,
                                                     .x_scales = x_scales.data(),
                                                     .x_sums = x_sums.data(),
                                                     .x_stride = kColumns},
                                         .bias = nullptr,
                                         .y = y.data(),
                                         .parts = parts.data(),
                                         .y_stride = kOutputs,
                                         .y_plane = 0,
                                         .rows = {nullptr, rows},
                                         .outputs = kOutputs,
                                         .part_count = static_cast<int32_t>(parts.size()),
                                         .y_type = kF32};
    const bool is_few = rows <= kTileRows;
    run(is_few ? "product_codes_few_f32" : "product_codes_f32",
        {.blocks = (kOutputs + kTileOutputs - 1) / kTileOutputs,
         .threads = kProductThreads,
         .shared_bytes = static_cast<size_t>(is_few ? kProductCodesFewSharedBytes : kProductCodesSharedBytes),
         .order = order},
        &product);
    for (int row = 0; row < rows; ++row) {
      for (int output = 0; output < kOutputs; ++output) {
        ASSERT_EQ(y[static_cast<size_t>(row * kOutputs + output)], operands.sum(row, output, parts, is_int8))
            << to_string(format) << " row " << row << " output " << output << (is_int8 ? " times int8" : "");
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, ProductCodes,
                         testing::Combine(testing::Range(size_t{0}, std::size(kFormats)), testing::Values(1, 8, 19),
                                          testing::Values(simt::Order::kUp, simt::Order::kShuffled)));

TEST(AppendCodes, GivesTheRowsOfTheHost) {
  constexpr int kRows = 5, kHeads = 3, kHeadDim = 37;
  std::vector<float> x = random_floats(kRows * kHeads * kHeadDim, 3);
  x[kHeadDim + 4] = INFINITY;
  std::fill_n(x.begin() + 2 * kHeadDim, kHeadDim, 1e-31f);
  const std::vector<int32_t> slot = {1, 0, -1, 1, 0}, position = {0, 70, 3, 127, 5};
  for (const DType dtype : {DType::kInt8, DType::kUInt8}) {
    CacheLayout cache{.dtype = dtype, .heads = kHeads, .head_dim = kHeadDim, .held = {2, 128, false, 0}};
    cache.tile_stride = cache.tile_bytes();
    cache.slot_stride = cache.tiles() * cache.tile_stride;
    std::vector<float> memory(static_cast<size_t>(2 * cache.slot_stride / 4));
    const AppendParameters parameters{.x = x.data(),
                                      .cache = memory.data(),
                                      .slot = slot.data(),
                                      .position = position.data(),
                                      .x_stride = kHeads * kHeadDim,
                                      .tiles = cache.for_kernels(),
                                      .rows = {nullptr, kRows},
                                      .heads = kHeads,
                                      .head_dim = kHeadDim};
    run("append_codes_f32", {.blocks = kRows, .threads = kAppendThreads}, &parameters);
    for (size_t row = 0; row < kRows; ++row) {
      if (slot[row] < 0) continue;
      const auto* tile = reinterpret_cast<const std::byte*>(memory.data()) +
                         cache.tile(slot[row], cache.place_of(position[row] / kTileTokens));
      for (int64_t head = 0; head < kHeads; ++head) {
        std::vector<std::byte> found(kHeadDim + 4), expected(kHeadDim + 4);
        cache.copy_row(tile, head, position[row] % kTileTokens, found.data());
        const float* values = x.data() + (static_cast<int64_t>(row) * kHeads + head) * kHeadDim;
        encode_cache_row(dtype, values, kHeadDim, expected.data());
        EXPECT_EQ(found, expected) << to_string(dtype) << " row " << row << " head " << head;
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::cuda
