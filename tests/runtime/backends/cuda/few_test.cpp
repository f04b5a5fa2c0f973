// Launches that compute several nodes, on the CPU: the bits of the nodes' own launches, in three orders of threads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "runtime/backends/cuda/few_rows.h"
#include "runtime/backends/cuda/lowering.h"
#include "runtime/backends/cuda/packing.h"
#include "runtime/backends/cuda/sum_parts.h"
#include "runtime/core/dtype.h"
#include "tests/cuda_stand_in/simt.h"

namespace lockstep::cuda {
namespace {

using Bits = std::vector<uint16_t>;

Bits random_bf16(int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Bits values(static_cast<size_t>(count));
  for (uint16_t& value : values) value = to_bfloat16(normal(random)).bits;
  return values;
}

/// A packed matrix, where loads of 16 bytes may start.
struct Matrix {
  Matrix(int64_t outputs, int64_t columns, int64_t leaf, unsigned seed)
      : packing{DType::kBFloat16, outputs, columns, leaf}, words(static_cast<size_t>(packing.bytes() / 16)) {
    const Bits values = random_bf16(outputs * columns, seed);
    packing.pack(std::as_bytes(std::span(values)), std::as_writable_bytes(std::span(words)));
  }
  struct alignas(16) Word {
    uint16_t elements[8] = {};
  };
  FragmentPacking packing;
  std::vector<Word> words;
};

class Few : public testing::TestWithParam<simt::Order> {
 protected:
  static constexpr int kRows = 3;

  template <typename Parameters>
  void run(const char* kernel, int blocks, int threads, int64_t shared, const Parameters& parameters) const {
    const simt::Grid grid{
        .blocks = blocks, .threads = threads, .shared_bytes = static_cast<size_t>(shared), .order = GetParam()};
    ASSERT_EQ(simt::run(*simt::find_kernel(kernel), grid, &parameters), "");
  }

  /// x · wᵀ by the kernel of many rows.
  Bits product(const Matrix& w, const std::vector<SumPart>& parts, const Bits& x, const void* bias) const {
    Bits y(static_cast<size_t>(kRows * w.packing.outputs), 0x7fff);
    const ProductParameters parameters = parameters_of(w, parts, x, bias, y.data());
    run("product_bf16", static_cast<int>(w.packing.tiles()), kProductThreads, kProductSharedBytes, parameters);
    return y;
  }
  static ProductParameters parameters_of(const Matrix& w, const std::vector<SumPart>& parts, const Bits& x,
                                         const void* bias, void* y) {
    return {.weights = w.words.data(),
            .x = x.data(),
            .bias = bias,
            .y = y,
            .parts = parts.data(),
            .x_stride = w.packing.columns,
            .y_stride = w.packing.outputs,
            .y_plane = 0,
            .rows = {nullptr, kRows},
            .outputs = static_cast<int32_t>(w.packing.outputs),
            .k_steps = static_cast<int32_t>(w.packing.k_steps()),
            .part_count = static_cast<int32_t>(parts.size()),
            .is_float = 0};
  }
  static ProductFewParameters few_of(const Matrix& w, const std::vector<SumPart>& parts, const Bits& x,
                                     const void* bias, void* y, int sums) {
    ProductFewParameters few{};
    few.product = parameters_of(w, parts, x, bias, y);
    few.x_rows = static_cast<int32_t>(std::ssize(x) / w.packing.columns);
    few.columns = static_cast<int32_t>(w.packing.columns);
    few.fold = fold_of(parts);
    few.row_stride = static_cast<int32_t>(few_row_stride(w.packing.k_steps(), 2));
    few.is_dense = are_dense(parts, w.packing.columns) ? 1 : 0;
    few.warp_steps = static_cast<int32_t>(most_warp_steps(parts, sums, kProductWarps));
    few.shared_bytes = static_cast<int32_t>(
        product_few_bytes(sums * std::ssize(parts), kProductWarps * few.warp_steps, kRows, w.packing.k_steps(), 2));
    return few;
  }
  /// Fewer blocks than tiles: a block walks several.
  void run_few(const ProductFewParameters& few) const {
    run("product_few_bf16", 2, kProductThreads, few.shared_bytes, few);
  }
  Bits map(MapKind kind, const Bits& x, const Bits& z, int64_t z_stride, int columns) const {
    Bits y(x.size(), 0x7fff);
    const MapParameters parameters{.x = x.data(),
                                   .z = z.data(),
                                   .y = y.data(),
                                   .x_stride = columns,
                                   .z_stride = z_stride,
                                   .y_stride = columns,
                                   .rows = {nullptr, kRows},
                                   .columns = columns,
                                   .kind = kind,
                                   .activation = kSilu,
                                   .number = 0.5f};
    run("map_bf16", (kRows * columns + kMapThreads - 1) / kMapThreads, kMapThreads, 0, parameters);
    return y;
  }
};

TEST_P(Few, NormTheirRowsAndKeepThem) {
  constexpr int kColumns = 328;  // no whole number of steps
  const Matrix w(40, kColumns, kColumns, 1);
  const std::vector<SumPart> parts = plain_parts(kColumns);
  const Bits x = random_bf16(5 * kColumns, 2), weight = random_bf16(kColumns, 3), bias = random_bf16(kColumns, 4);
  const std::vector<int32_t> index = {4, -1, 0};
  for (const bool is_layer_norm : {false, true}) {
    Bits selected(kRows * kColumns, 0), normed(selected.size(), 0x7fff), kept(normed);
    for (int row : {0, 2}) std::copy_n(x.begin() + index[row] * kColumns, kColumns, selected.begin() + row * kColumns);
    const Norm norm{weight.data(), is_layer_norm ? bias.data() : nullptr, 1e-5f, 0.0f, 0, is_layer_norm ? 1 : 0, 1};
    const auto row = [&](const Bits& from, Bits& to) {
      const RmsNormParameters rms{from.data(), to.data(), kColumns, kColumns, norm, {nullptr, kRows}, 1, kColumns};
      const LayerNormParameters layer{from.data(), to.data(), kColumns, kColumns, norm, {nullptr, kRows}, kColumns};
      if (is_layer_norm) {
        run("layer_norm_bf16", kRows, kNormThreads, 256, layer);
      } else {
        run("rms_norm_bf16", kRows, kNormThreads, 256, rms);
      }
    };
    row(selected, normed);
    Bits y(kRows * 40, 0x7fff);
    ProductFewParameters few = few_of(w, parts, x, nullptr, y.data(), 1);
    few.index = index.data();
    few.norm = norm;
    few.kept = kept.data();
    run_few(few);
    EXPECT_EQ(kept, normed);
    EXPECT_EQ(y, product(w, parts, normed, nullptr));
  }
}

TEST_P(Few, GateOneWeightByAnother) {
  constexpr int kColumns = 96, kOutputs = 48;
  const Matrix gates(kOutputs, kColumns, kColumns, 5), ups(kOutputs, kColumns, kColumns, 6);
  const std::vector<SumPart> parts = plain_parts(kColumns);
  const Bits x = random_bf16(kRows * kColumns, 7), bias = random_bf16(kOutputs, 8);
  Bits y(kRows * kOutputs, 0x7fff);
  ProductFewParameters few = few_of(gates, parts, x, nullptr, y.data(), 2);
  few.up_weights = ups.words.data();
  few.up_bias = bias.data();
  few.gate = kSilu;
  run_few(few);
  EXPECT_EQ(y,
            map(kMapGate, product(gates, parts, x, nullptr), product(ups, parts, x, bias.data()), kOutputs, kOutputs));
}

TEST_P(Few, GoOnWithTheirResults) {
  constexpr int kOutputs = 24;
  const Bits residual = random_bf16(kRows * kOutputs, 9), bias = random_bf16(kOutputs, 10);
  struct Tree {
    std::vector<int64_t> bounds;
    FoldKind fold;
  };
  for (const Tree& tree : {Tree{{0, 16}, kFoldEights}, Tree{{0, 5}, kFoldAny}, Tree{{0, 24}, kFoldEights}}) {
    const int64_t block = 20, columns = block * tree.bounds.back();
    const Matrix w(kOutputs, columns, block, 11);
    const std::vector<SumPart> parts = block_parts(BlockSplit{tree.bounds}, 0, block, columns);
    EXPECT_EQ(fold_of(parts), tree.fold);
    const Bits x = random_bf16(kRows * columns, 12);
    Bits y(kRows * kOutputs, 0x7fff);
    ProductFewParameters few = few_of(w, parts, x, nullptr, y.data(), 1);
    few.finishes[0] = {.z = bias.data(), .z_stride = 0, .kind = kMapAdd, .activation = kSilu, .number = 0.0f};
    few.finishes[1] = {.z = nullptr, .z_stride = 0, .kind = kMapScale, .activation = kSilu, .number = 0.5f};
    few.finishes[2] = {
        .z = residual.data(), .z_stride = kOutputs, .kind = kMapAdd, .activation = kSilu, .number = 0.0f};
    few.finish_count = 3;
    run_few(few);
    const Bits scaled =
        map(kMapScale, map(kMapAdd, product(w, parts, x, nullptr), bias, 0, kOutputs), bias, 0, kOutputs);
    EXPECT_EQ(y, map(kMapAdd, scaled, residual, kOutputs, kOutputs));
  }
}

TEST_P(Few, ReadNothingEarlyThatTheLaunchAheadWrites) {
  constexpr int kColumns = 64, kOutputs = 40;
  const Matrix w(kOutputs, kColumns, kColumns, 15);
  const std::vector<SumPart> parts = plain_parts(kColumns);
  const Bits weight = random_bf16(kColumns, 16);
  Bits x(kRows * kColumns, 0x7fff), residual(kRows * kOutputs, 0x7fff), y(residual), expected(residual);
  ProductFewParameters few = few_of(w, parts, x, nullptr, y.data(), 1);
  few.norm = {weight.data(), nullptr, 1e-5f, 0.0f, 0, 0, 1};
  few.finishes[0] = {.z = residual.data(), .z_stride = kOutputs, .kind = kMapAdd, .activation = kSilu, .number = 0.0f};
  few.finish_count = 1;
  const simt::Grid grid{.blocks = 2,
                        .threads = kProductThreads,
                        .shared_bytes = static_cast<size_t>(few.shared_bytes),
                        .starts_early = true,
                        .order = GetParam()};
  simt::EarlyGrid early(*simt::find_kernel("product_few_bf16"), grid, &few);
  early.start();
  std::ranges::copy(random_bf16(kRows * kColumns, 17), x.begin());
  std::ranges::copy(random_bf16(kRows * kOutputs, 18), residual.begin());
  EXPECT_EQ(early.finish(), "");
  few.product.y = expected.data();
  run_few(few);
  EXPECT_EQ(y, expected);
}

TEST_P(Few, PrepareHeadsAsNormTurnAndAppend) {
  constexpr int kHeads = 3, kHeadDim = 40, kWidth = kHeads * kHeadDim, kHalf = 16;
  const Bits x = random_bf16(kRows * 2 * kWidth, 13), weight = random_bf16(kHeadDim, 14);
  const std::vector<int32_t> slot = {1, -1, 0}, position = {70, 3, 5};
  std::vector<float> cosines(kRows * kHalf), sines(cosines.size());
  for (size_t i = 0; i < cosines.size(); ++i) {
    cosines[i] = std::cos(static_cast<float>(i));
    sines[i] = std::sin(static_cast<float>(i));
  }
  const CacheTiles tiles{.slot_stride = 2 * kWidth * kTileTokens,
                         .tile_stride = kWidth * kTileTokens,
                         .fixed_tiles = 2,
                         .turning_tiles = 0};
  const Norm norm{weight.data(), nullptr, 1e-5f, 1.0f, 1, 0, 1};
  const RowCount rows{nullptr, kRows};
  for (const int neighbours : {0, 1}) {
    const Turn turn{cosines.data(), sines.data(), kHalf, neighbours};
    // One after the other, of the first columns of x.
    Bits normed(kRows * kWidth, 0x7fff), turned(normed), cache(4 * kWidth * kTileTokens, 0x7fff);
    run("rms_norm_bf16", kRows * kHeads, kNormThreads, 256,
        RmsNormParameters{x.data(), normed.data(), 2 * kWidth, kWidth, norm, rows, kHeads, kHeadDim});
    run("turn_bf16", kRows, kTurnThreads, 0,
        TurnParameters{normed.data(), turned.data(), kWidth, kWidth, turn, rows, kHeads, kHeadDim});
    run("append_2", kRows, kAppendThreads, 0,
        AppendParameters{turned.data(), cache.data(), slot.data(), position.data(), kWidth, tiles, rows, kHeads,
                         kHeadDim});
    // In one launch: these columns as queries and as keys, the others as values.
    Bits values(cache.size(), 0x7fff), keys(values), queries(turned.size(), 0x7fff), of_append(values);
    run("append_2", kRows, kAppendThreads, 0,
        AppendParameters{x.data() + kWidth, of_append.data(), slot.data(), position.data(), 2 * kWidth, tiles, rows,
                         kHeads, kHeadDim});
    HeadsParameters heads{};
    heads.parts[0] = {x.data(), queries.data(), nullptr, 2 * kWidth, kWidth, norm, turn, {}, kHeads};
    heads.parts[1] = {x.data(), nullptr, keys.data(), 2 * kWidth, 0, norm, turn, {}, kHeads};
    heads.parts[2] = {x.data() + kWidth, nullptr, values.data(), 2 * kWidth, 0, {}, {}, {}, kHeads};
    heads.slot = slot.data();
    heads.position = position.data();
    heads.tiles = tiles;
    heads.rows = rows;
    heads.heads_of_row = 3 * kHeads;
    heads.head_dim = kHeadDim;
    run("prepare_heads_bf16", kRows * heads.heads_of_row, 64, kHeadsSharedBytes, heads);
    EXPECT_EQ(queries, turned);
    EXPECT_EQ(keys, cache);
    EXPECT_EQ(values, of_append);
  }
}

TEST_P(Few, JoinHeadsOfNormedAndTurnedColumns) {
  constexpr int kOwn = 37, kTurned = 10, kHeadDim = kOwn + kTurned, kHalf = 4;
  constexpr int kStride = kHeadDim + 5;
  const Bits x = random_bf16(kRows * kStride, 1), weight = random_bf16(kOwn, 2);
  std::vector<float> cosines(kRows * kHalf), sines(cosines.size());
  for (size_t i = 0; i < cosines.size(); ++i) {
    cosines[i] = std::cos(static_cast<float>(i));
    sines[i] = std::sin(static_cast<float>(i));
  }
  const std::vector<int32_t> slot = {0, -1, 1}, position = {5, 3, 70};
  const CacheTiles tiles{2 * kHeadDim * kTileTokens, kHeadDim * kTileTokens, 2, 0};
  const Norm norm{weight.data(), nullptr, 1e-5f, 0.0f, 0, 0, 1};
  const Turn turn{cosines.data(), sines.data(), kHalf, 1};
  const RowCount rows{nullptr, kRows};
  // One after the other.
  Bits normed(kRows * kOwn, 0x7fff), turned(kRows * kTurned, 0x7fff), joined(kRows * kHeadDim, 0x7fff);
  Bits cache(4 * kHeadDim * kTileTokens, 0x7fff), keys(cache), queries(joined);
  run("rms_norm_bf16", kRows, kNormThreads, 256,
      RmsNormParameters{x.data(), normed.data(), kStride, kOwn, norm, rows, 1, kOwn});
  run("turn_bf16", kRows, kTurnThreads, 0,
      TurnParameters{x.data() + kOwn, turned.data(), kStride, kTurned, turn, rows, 1, kTurned});
  run("join_heads_2", 1, kMapThreads, 0,
      JoinHeadsParameters{normed.data(), turned.data(), joined.data(), kOwn, kTurned, kHeadDim, rows, kHeadDim, kOwn,
                          kTurned});
  run("append_2", kRows, kAppendThreads, 0,
      AppendParameters{joined.data(), cache.data(), slot.data(), position.data(), kHeadDim, tiles, rows, 1, kHeadDim});
  // In one launch, as queries and as keys.
  HeadsParameters heads{};
  const HeadsRest rest{x.data() + kOwn, kStride, turn, kTurned};
  heads.parts[0] = {x.data(), queries.data(), nullptr, kStride, kHeadDim, norm, {}, rest, 1};
  heads.parts[1] = {x.data(), nullptr, keys.data(), kStride, 0, norm, {}, rest, 1};
  heads.slot = slot.data();
  heads.position = position.data();
  heads.tiles = tiles;
  heads.rows = rows;
  heads.heads_of_row = 2;
  heads.head_dim = kHeadDim;
  run("prepare_heads_joined_bf16", kRows * heads.heads_of_row, 64, kHeadsSharedBytes, heads);
  EXPECT_EQ(queries, joined);
  EXPECT_EQ(keys, cache);
}

/// A T whose bytes were all 0xff before `clear_padding`.
template <typename T>
T filled() {
  T value;
  std::memset(static_cast<void*>(&value), 0xff, sizeof value);
  clear_padding(value);
  return value;
}

TEST(CudaParameters, KeepTheirMembersWherePaddingIsCleared) {
  const auto* all = reinterpret_cast<const void*>(~uintptr_t{0});
  const auto few = filled<ProductFewParameters>();
  for (const Finish& finish : few.finishes) {
    EXPECT_EQ(finish.z, all);
    EXPECT_EQ(finish.z_stride, -1);
    EXPECT_EQ(finish.kind, -1);
    EXPECT_EQ(finish.activation, -1);
  }
  EXPECT_EQ(few.norm.weight, all);
  EXPECT_EQ(few.norm.bias, all);
  for (const int32_t number : {few.finish_count, few.gate, few.x_rows, few.columns, few.fold, few.row_stride,
                               few.warp_steps, few.is_dense, few.shared_bytes}) {
    EXPECT_EQ(number, -1);
  }
  const auto heads = filled<HeadsParameters>();
  for (const HeadsPart& part : heads.parts) {
    for (const void* pointer : {part.x, static_cast<const void*>(part.y), static_cast<const void*>(part.cache),
                                part.norm.weight, part.norm.bias, static_cast<const void*>(part.turn.cosines)}) {
      EXPECT_EQ(pointer, all);
    }
    EXPECT_EQ(part.x_stride, -1);
    EXPECT_EQ(part.y_stride, -1);
    EXPECT_EQ(part.rest.x, all);
    EXPECT_EQ(part.rest.x_stride, -1);
    EXPECT_EQ(part.rest.columns, -1);
    EXPECT_EQ(part.heads, -1);
  }
  EXPECT_EQ(heads.slot, all);
  EXPECT_EQ(heads.rows.in_use, all);
  EXPECT_EQ(heads.head_dim, -1);
}

INSTANTIATE_TEST_SUITE_P(InThreeOrders, Few,
                         testing::Values(simt::Order::kUp, simt::Order::kDown, simt::Order::kShuffled));

}  // namespace
}  // namespace lockstep::cuda
