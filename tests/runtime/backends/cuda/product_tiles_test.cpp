// Products of many rows, to the bit as products of few: their order of sums is one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "runtime/backends/cuda/packing.h"
#include "runtime/backends/cuda/product_form.h"
#include "runtime/backends/cuda/sum_parts.h"
#include "tests/cuda_stand_in/simt.h"

namespace lockstep::cuda {
namespace {

/// Bytes that begin at a multiple of 256, as device memory does.
class Aligned {
 public:
  explicit Aligned(size_t bytes) : memory_(bytes + 256, std::byte{0}), bytes_(bytes) {}
  std::byte* data() { return memory_.data() + (256 - reinterpret_cast<uintptr_t>(memory_.data()) % 256) % 256; }
  std::span<std::byte> bytes() { return {data(), bytes_}; }

 private:
  std::vector<std::byte> memory_;
  size_t bytes_;
};

Aligned random_elements(DType dtype, int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = normal(random);
  Aligned elements(static_cast<size_t>(count) * size_of(dtype));
  convert_elements(reinterpret_cast<const std::byte*>(values.data()), DType::kFloat32, elements.data(), dtype,
                   values.size());
  return elements;
}

struct Case {
  const char* name;
  DType dtype = DType::kBFloat16;
  int rows = 70;
  int columns = 208;
  int outputs = 150;  // more than a block's
  bool is_float = false;
  bool has_bias = false;
  std::vector<int64_t> bounds = {};  // of ranks' leaves; empty: a plain product
  int rank = 0;
  int block = 0;
  int in_use = -1;  // rows; −1: all

  friend void PrintTo(const Case& tested, std::ostream* out) { *out << tested.name; }
};

constexpr std::byte kUntouched{0x5a};

class ManyRows : public testing::TestWithParam<Case> {
 protected:
  ManyRows()
      : x_(random_elements(c_.dtype, int64_t{c_.rows} * stride(), 1)),
        weights_(random_elements(c_.dtype, int64_t{c_.outputs} * c_.columns, 2)),
        bias_(random_elements(c_.dtype, c_.outputs, 3)),
        packing_{c_.dtype, c_.outputs, c_.columns, c_.block > 0 ? c_.block : c_.columns},
        packed_(static_cast<size_t>(packing_.bytes())),
        parts_(c_.bounds.empty() ? plain_parts(c_.columns)
                                 : block_parts(BlockSplit{c_.bounds}, c_.rank, c_.block, c_.columns)) {
    packing_.pack(weights_.bytes(), packed_.bytes());
    for (const SumPart& part : parts_) roots_ = std::max(roots_, part.root + 1);
  }

  /// Rows of x are this far apart, with elements behind them that do not belong to x.
  int stride() const { return (c_.columns + 7) / 8 * 8 + 8; }

  std::vector<std::byte> run(const std::string& kernel, int64_t blocks, int64_t shared_bytes, simt::Order order) {
    const size_t size = c_.is_float ? 4 : size_of(c_.dtype);
    std::vector<std::byte> y(static_cast<size_t>(roots_) * static_cast<size_t>(c_.rows * c_.outputs) * size,
                             kUntouched);
    const int32_t in_use = c_.in_use;
    const ProductParameters p{.weights = packed_.data(),
                              .x = x_.data(),
                              .bias = c_.has_bias ? bias_.data() : nullptr,
                              .y = y.data(),
                              .parts = parts_.data(),
                              .x_stride = stride(),
                              .y_stride = c_.outputs,
                              .y_plane = int64_t{c_.rows} * c_.outputs,
                              .rows = {c_.in_use < 0 ? nullptr : &in_use, c_.rows},
                              .outputs = c_.outputs,
                              .k_steps = static_cast<int32_t>(packing_.k_steps()),
                              .part_count = static_cast<int32_t>(parts_.size()),
                              .is_float = c_.is_float,
                              .levels = open_levels(parts_)};
    EXPECT_EQ(simt::run(*simt::find_kernel((kernel + "_" + std::string(to_string(c_.dtype))).c_str()),
                        {.blocks = static_cast<int>(blocks),
                         .threads = kProductThreads,
                         .shared_bytes = static_cast<size_t>(shared_bytes),
                         .order = order},
                        &p),
              "");
    return y;
  }
  std::vector<std::byte> by_tiles(const std::string& kernel, int groups, simt::Order order) {
    const int64_t blocks = ((c_.outputs + 127) / 128) * ((c_.rows + groups * 8 - 1) / (groups * 8));
    return run(kernel, blocks, product_tiles_bytes(groups, open_levels(parts_)), order);
  }

  const Case c_ = GetParam();
  Aligned x_, weights_, bias_;
  FragmentPacking packing_;
  Aligned packed_;
  std::vector<SumPart> parts_;
  int roots_ = 1;
};

TEST_P(ManyRows, HaveTheBitsOfFewRows) {
  const std::vector<std::byte> few =
      run("product", (c_.outputs + kTileOutputs - 1) / kTileOutputs, kProductSharedBytes, simt::Order::kUp);
  for (const simt::Order order : {simt::Order::kUp, simt::Order::kDown, simt::Order::kShuffled}) {
    EXPECT_EQ(by_tiles("product_tiles", kTilesGroups, order), few);
  }
  if (c_.dtype == DType::kFloat32) return;
  EXPECT_EQ(by_tiles("product_wide", kWideGroups, simt::Order::kShuffled), few);
}

INSTANTIATE_TEST_SUITE_P(
    Products, ManyRows,
    testing::Values(
        Case{.name = "bf16", .has_bias = true}, Case{.name = "f16", .dtype = DType::kFloat16},
        Case{.name = "f32", .dtype = DType::kFloat32, .columns = 100, .outputs = 20, .has_bias = true},
        Case{.name = "f32_in_blocks",
             .dtype = DType::kFloat32,
             .columns = 70,
             .outputs = 20,
             .is_float = true,
             .bounds = {0, 4},
             .block = 20},
        Case{.name = "f32_of_bf16", .rows = 33, .is_float = true, .has_bias = true},
        Case{.name = "few_columns", .columns = 30},  // parts without a step
        Case{.name = "two_tiles_of_rows", .rows = 140, .columns = 130, .outputs = 40},
        Case{.name = "rows_in_use", .rows = 140, .columns = 130, .outputs = 40, .in_use = 75},
        Case{.name = "blocks", .columns = 5 * 48, .is_float = true, .bounds = {0, 5}, .block = 48},
        // Three sums are open at a time.
        Case{.name = "eight_blocks", .columns = 8 * 80, .outputs = 20, .is_float = true, .bounds = {0, 8}, .block = 80},
        Case{.name = "narrow_blocks", .columns = 5 * 24 - 7, .is_float = true, .bounds = {0, 5}, .block = 24},
        Case{.name = "blocks_of_a_rank",
             .columns = 4 * 80,
             .is_float = true,
             .bounds = {0, 3, 7, 8},
             .rank = 1,
             .block = 80}),
    [](const auto& tested) { return std::string(tested.param.name); });

/// Products by head.
class ProductHeads : public testing::TestWithParam<std::tuple<DType, simt::Order>> {};

TEST_P(ProductHeads, HaveTheBitsOfEachHeadAlone) {
  const auto& [dtype, order] = GetParam();
  constexpr int kRows = 37, kHeads = 3, kColumns = 40, kOutputs = 150;
  constexpr int kStride = kHeads * kColumns + 8;
  Aligned x = random_elements(dtype, kRows * kStride, 1);
  Aligned weights = random_elements(dtype, kHeads * kOutputs * kColumns, 2);
  const FragmentPacking packing{dtype, kOutputs, kColumns, kColumns};
  Aligned packed(static_cast<size_t>(kHeads * packing.bytes()));
  const auto of_head = [&](Aligned& all, int head) {
    return all.bytes().subspan(all.bytes().size() / kHeads * static_cast<size_t>(head));
  };
  for (int head = 0; head < kHeads; ++head) packing.pack(of_head(weights, head), of_head(packed, head));
  const std::vector<SumPart> parts = plain_parts(kColumns);
  const std::string suffix = "_" + std::string(to_string(dtype));
  const size_t bytes = kRows * kHeads * kOutputs * size_of(dtype);
  ProductParameters one{.weights = packed.data(),
                        .x = x.data(),
                        .bias = nullptr,
                        .y = nullptr,
                        .parts = parts.data(),
                        .x_stride = kStride,
                        .y_stride = kHeads * kOutputs,
                        .y_plane = 0,
                        .rows = {nullptr, kRows},
                        .outputs = kOutputs,
                        .k_steps = static_cast<int32_t>(packing.k_steps()),
                        .part_count = static_cast<int32_t>(parts.size()),
                        .is_float = dtype == DType::kFloat32,
                        .levels = open_levels(parts)};
  const auto run = [&](const std::string& kernel, const auto& parameters, int64_t blocks, int64_t shared_bytes) {
    const simt::Grid grid{.blocks = static_cast<int>(blocks),
                          .threads = kProductThreads,
                          .shared_bytes = static_cast<size_t>(shared_bytes),
                          .order = order};
    EXPECT_EQ(simt::run(*simt::find_kernel((kernel + suffix).c_str()), grid, &parameters), "");
  };
  std::vector<std::byte> expected(bytes, kUntouched);
  for (int head = 0; head < kHeads; ++head) {
    ProductParameters own = one;
    own.weights = of_head(packed, head).data();
    own.x = x.data() + static_cast<size_t>(head * kColumns) * size_of(dtype);
    own.y = expected.data() + static_cast<size_t>(head * kOutputs) * size_of(dtype);
    run("product", own, (kOutputs + 15) / 16, kProductSharedBytes);
  }
  for (const int64_t rows : {8, kRows}) {
    const ProductForm form = product_form({.dtype = dtype,
                                           .rows = rows,
                                           .outputs = kOutputs,
                                           .address = reinterpret_cast<uint64_t>(x.data()),
                                           .stride = kStride,
                                           .head_columns = kColumns},
                                          parts);
    EXPECT_EQ(form.kernel, rows == kRows ? "product_heads_tiles" : "product_heads");
    std::vector<std::byte> y(bytes, kUntouched);
    one.y = y.data();
    one.levels = form.levels;
    const ProductHeadsParameters parameters{.first = one,
                                            .x_columns = kColumns,
                                            .weights = packing.bytes() / static_cast<int64_t>(size_of(dtype)),
                                            .blocks = form.blocks};
    run(std::string(form.kernel), parameters, kHeads * form.blocks, form.shared_bytes);
    EXPECT_EQ(y, expected) << form.kernel;
  }
}

INSTANTIATE_TEST_SUITE_P(Types, ProductHeads,
                         testing::Combine(testing::Values(DType::kFloat32, DType::kBFloat16, DType::kFloat16),
                                          testing::Values(simt::Order::kUp, simt::Order::kDown,
                                                          simt::Order::kShuffled)),
                         [](const auto& tested) {
                           return std::string(to_string(std::get<0>(tested.param))) + "_" +
                                  std::to_string(tested.index);
                         });

TEST(ProductForm, IsChosenByTheRowsAndTheBlocksThatTheyGive) {
  const auto kernel = [](ProductShape shape, const std::vector<SumPart>& parts) {
    const ProductForm form = product_form(shape, parts);
    EXPECT_LE(form.shared_bytes, 227 * 1024);
    return form.kernel;
  };
  const std::vector<SumPart> plain = plain_parts(4096);
  EXPECT_EQ(kernel({.rows = 8, .outputs = 4096, .stride = 4096}, plain), "product");
  EXPECT_EQ(kernel({.rows = 9, .outputs = 4096, .stride = 4096}, plain), "product_tiles");
  EXPECT_EQ(kernel({.dtype = DType::kFloat32, .rows = 32, .outputs = 4096, .stride = 4096}, plain), "product");
  EXPECT_EQ(kernel({.rows = 256, .outputs = 4096, .stride = 4096}, plain), "product_tiles");
  EXPECT_EQ(kernel({.rows = 2048, .outputs = 4096, .stride = 4096}, plain), "product_wide");
  EXPECT_EQ(kernel({.dtype = DType::kFloat32, .rows = 2048, .outputs = 4096, .stride = 4096}, plain), "product_tiles");
  // Rows that are no multiple of 16 bytes apart, or begin between.
  EXPECT_EQ(kernel({.rows = 256, .outputs = 4096, .stride = 4097}, plain), "product");
  EXPECT_EQ(kernel({.rows = 256, .outputs = 4096, .address = 8, .stride = 4096}, plain), "product");
  const BlockSplit split{{0, 32}};
  EXPECT_EQ(kernel({.rows = 2048, .outputs = 4096, .stride = 4096}, block_parts(split, 0, 128, 4096)), "product_tiles");
  EXPECT_EQ(kernel({.rows = 2048, .outputs = 4096, .stride = 4100}, block_parts(split, 0, 50, 1600)), "product");
  // By head: whole heads lie 16 bytes apart, or not.
  EXPECT_EQ(kernel({.rows = 2048, .outputs = 512, .stride = 2048, .head_columns = 128}, plain_parts(128)),
            "product_heads_tiles");
  EXPECT_EQ(kernel({.rows = 2048, .outputs = 512, .stride = 2048, .head_columns = 20}, plain_parts(20)),
            "product_heads");
  // Sums of 256 leaves leave more open than shared memory holds.
  EXPECT_EQ(kernel({.rows = 2048, .outputs = 4096, .stride = 4096}, block_parts({{0, 256}}, 0, 16, 4096)), "product");
}

}  // namespace
}  // namespace lockstep::cuda
