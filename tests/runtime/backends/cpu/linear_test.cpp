#include "runtime/backends/cpu/linear.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>

#include "runtime/backends/cpu/fused_linear.h"
#include "tests/runtime/backends/cpu/product_fixture.h"

namespace lockstep::cpu {
namespace {

/// Odd sizes, tails of every kind, K longer than a slab of 512 steps.
const std::vector<ProductShape> kShapes = {{1, 1, 1},  {1, 16, 7},    {2, 17, 33},    {3, 64, 64},   {5, 65, 31},
                                           {6, 48, 2}, {7, 100, 129}, {13, 130, 257}, {8, 33, 1100}, {25, 72, 515}};

class Linear : public OnEveryMachine {};

INSTANTIATE_TEST_SUITE_P(EveryIsa, Linear, every_isa_and_dtype(), name_of_isa_and_dtype);

TEST_P(Linear, MultipliesEveryShape) {
  for (const ProductShape& shape : kShapes) {
    const ProductFixture product{kernels(), dtype(), shape};
    const std::vector<float> found = product.run();
    const std::vector<double> exact = product.exact();
    // Products are exact (8 bits times 8 bits); each of K additions rounds to within 2^-24 of a sum of at most K.
    const double tolerance = static_cast<double>(shape.k * shape.k) * std::ldexp(1.0, -24);
    for (size_t i = 0; i < exact.size(); ++i) {
      ASSERT_NEAR(found[i], exact[i], tolerance) << shape.rows << "x" << shape.n << "x" << shape.k << " at " << i;
    }
  }
}

TEST_P(Linear, GivesARowTheSameBitsWhateverTheOtherRows) {
  for (const ProductShape& shape : kShapes) {
    const ProductFixture product{kernels(), dtype(), shape};
    const std::vector<float> together = product.run();
    for (int64_t row = 0; row < shape.rows; ++row) {
      const std::vector<float> alone = product.with_rows(row, row + 1).run();
      const auto begin = together.begin() + row * shape.n;
      EXPECT_TRUE(same_bits(alone, {begin, begin + shape.n})) << "row " << row << " of " << shape.rows;
    }
  }
}

TEST_P(Linear, GivesTheSameBitsAtEveryRowCountOfADecodeStep) {
  // Beyond `kFewRows` too, where other kernels run; leaves of 8 and 1 steps, K of some slabs, a panel of 3 strips.
  const ProductFixture most{kernels(), dtype(), {40, 112, 150}};
  const BlockSplit split{{0, 10}};
  const std::vector<float> plain = most.run(), leaves = most.run(1, split, 0, 16);
  for (int64_t rows = 1; rows < 40; ++rows) {
    const ProductFixture some = most.with_rows(40 - rows, 40);
    EXPECT_TRUE(same_bits(some.run(2), {plain.end() - rows * 112, plain.end()})) << rows;
    EXPECT_TRUE(same_bits(some.run(3, split, 0, 16), {leaves.end() - rows * 112, leaves.end()})) << rows;
  }
}

TEST_P(Linear, GivesTheSameBitsWhereManyPanelsPassInOneCall) {
  // Five panels and two and a half strips; a plain sum, then ranks with two roots each.
  const BlockSplit split{{0, 3, 7}};
  for (const DType result : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    for (const bool has_bias : {false, true}) {
      ProductFixture most{kernels(), dtype(), {40, 5 * 64 + 40, 7 * 10}};
      most.result_type = result;
      if (has_bias) most.bias = random_numbers(most.shape.n, 3);
      for (int rank = -1; rank < 2; ++rank) {
        const ProductFixture own = rank < 0 ? most : most.with_columns(rank * 30, rank == 0 ? 30 : 70);
        const auto run = [&](const ProductFixture& some, int workers) {
          return rank < 0 ? some.run(workers) : some.run(workers, split, rank, 10);
        };
        const std::vector<float> all = run(own, 1);
        for (int64_t rows = 1; rows <= 9; ++rows) {
          const std::vector<float> found = run(own.with_rows(0, rows), rows % 2 == 0 ? 1 : 2);
          const int64_t plane = rows * own.shape.n, roots = std::ssize(found) / plane;
          EXPECT_EQ(roots, rank < 0 ? 1 : 2);
          for (int64_t root = 0; root < roots; ++root) {
            const auto expected = all.begin() + root * 40 * own.shape.n;
            EXPECT_TRUE(same_bits({found.begin() + root * plane, found.begin() + (root + 1) * plane},
                                  {expected, expected + plane}))
                << "rank " << rank << ", root " << root << ", " << rows << " rows, result " << to_string(result);
          }
        }
      }
    }
  }
}

TEST_P(Linear, GivesTheSameBitsWhereXIsLargerThanACache) {
  // 1.1 MiB of bfloat16, nine panels and a part of one: groups of panels alternate over slabs of K.
  const ProductFixture many{kernels(), dtype(), {36 + 33, 9 * 64 + 24, 8000}};
  const BlockSplit split{{0, 32}};
  const std::vector<float> plain = many.run(), leaves = many.run(2, split, 0, 250);
  for (const Range of : {Range{0, 1}, Range{35, 37}, Range{37, 69}}) {
    const ProductFixture some = many.with_rows(of.begin, of.end);
    const auto rows_of = [&](const std::vector<float>& all) {
      return std::vector<float>(all.begin() + of.begin * many.shape.n, all.begin() + of.end * many.shape.n);
    };
    EXPECT_TRUE(same_bits(some.run(), rows_of(plain))) << to_string(of);
    EXPECT_TRUE(same_bits(some.run(3, split, 0, 250), rows_of(leaves))) << to_string(of);
  }
}

TEST_P(Linear, KeepsInfinityAndNanInTheirRowsAtEveryRowCountOfADecodeStep) {
  for (int64_t rows : {4, 6, 7, 8, 9, 16, 31, 36}) {
    ProductFixture product{kernels(), dtype(), {rows, 64, 96}};
    const std::vector<float> before = product.run();
    product.x[96] = std::numeric_limits<float>::infinity();  // row 1
    product.x[3 * 96 + 95] = std::numeric_limits<float>::quiet_NaN();
    const std::vector<float> found = product.run();
    for (int64_t i = 0; i < rows * 64; ++i) {
      if (i / 64 == 3) {
        EXPECT_TRUE(std::isnan(found[i])) << rows;
      } else if (i / 64 != 1) {
        EXPECT_EQ(found[i], before[i]) << rows;
      }
    }
  }
}

/// gate and up [2 · columns, k] with a made x: the same bits as the plain product of the rows from `make_row`.
TEST_P(Linear, MakesItsRowsAndWorksOnItsColumnsWhateverTheWorkers) {
  const ProductFixture product{kernels(), dtype(), {3, 2 * 80, 64}};
  const std::vector<float> plain = product.run();
  const bool pairs = kernels().bf16_pairs && dtype() == DType::kBFloat16;
  const Packing packing = Packing::for_leaves(160, 64, 64, dtype(), pairs);
  std::vector<std::byte> packed(static_cast<size_t>(packing.bytes()));
  pack(packing, encode(product.w, dtype()).data(), packed.data());
  const std::vector<std::byte> x = encode(product.x, dtype());
  std::vector<float> gate_up(3 * 160), sums(3 * 80);
  Tensor from{.dtype = dtype(), .rows = 3, .columns = 64};  // no data: every row is made
  from.stride = 64 * from.element_size();
  const Tensor to{.data = reinterpret_cast<std::byte*>(gate_up.data()), .rows = 3, .columns = 160, .stride = 160 * 4};
  FusedLinear fused(LinearTask::make(kernels(), {packing, packed.data()}, LinearPlan::plain(packing), from, to));
  fused.take_halves();
  fused.make_rows([&](int64_t row, std::byte* dst) { std::memcpy(dst, x.data() + row * from.stride, from.stride); });
  fused.add_tail([&](Range columns) {
    for (int64_t row = 0; row < 3; ++row) {
      for (int64_t c = columns.begin; c < columns.end; ++c) {
        sums[row * 80 + c] = gate_up[row * 160 + c] - gate_up[row * 160 + 80 + c];
      }
    }
  });
  std::vector<float> scratch(static_cast<size_t>(fused.private_bytes() / 4), __builtin_nanf(""));
  for (int workers : {1, 2, 3, 7}) {
    std::fill(sums.begin(), sums.end(), __builtin_nanf(""));
    std::fill(gate_up.begin(), gate_up.end(), __builtin_nanf(""));
    for (int worker = 0; worker < workers; ++worker) {
      fused.run(nullptr, reinterpret_cast<std::byte*>(scratch.data()), {worker, workers});
    }
    EXPECT_TRUE(same_bits(gate_up, plain)) << workers;
    for (int64_t i = 0; i < 3 * 80; ++i) {
      EXPECT_EQ(sums[i], plain[i / 80 * 160 + i % 80] - plain[i / 80 * 160 + 80 + i % 80]) << workers;
    }
  }
}

/// Worker 0 continues only when a column of its share is done, which another worker must have stolen.
TEST_P(Linear, LeavesPanelsOfALateWorkerToTheOthers) {
  const int64_t half = 10 * kPanel;
  const ProductFixture product{kernels(), dtype(), {2, 2 * half, 64}};
  const bool pairs = kernels().bf16_pairs && dtype() == DType::kBFloat16;
  const Packing packing = Packing::for_leaves(2 * half, 64, 64, dtype(), pairs);
  std::vector<std::byte> packed(static_cast<size_t>(packing.bytes())), x = encode(product.x, dtype());
  pack(packing, encode(product.w, dtype()).data(), packed.data());
  std::vector<float> found(2 * 2 * half, -77.0f);
  Tensor from{.data = x.data(), .dtype = dtype(), .rows = 2, .columns = 64};
  from.stride = 64 * from.element_size();
  const Tensor to{
      .data = reinterpret_cast<std::byte*>(found.data()), .rows = 2, .columns = 2 * half, .stride = 2 * half * 4};
  FusedLinear fused(LinearTask::make(kernels(), {packing, packed.data()}, LinearPlan::plain(packing), from, to));
  fused.take_halves();
  fused.arrange_alone();
  fused.steal_between(2);
  std::atomic<bool> has_begun = false, is_stolen = false;
  const auto wait_for = [](const std::atomic<bool>& flag) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!flag && std::chrono::steady_clock::now() < deadline) sched_yield();
  };
  std::vector<std::atomic<int>> tails(static_cast<size_t>(half));
  fused.add_tail([&](Range columns) {
    for (int64_t c = columns.begin; c < columns.end; ++c) ++tails[static_cast<size_t>(c)];
    if (columns.begin == 0) {
      has_begun = true;
      wait_for(is_stolen);
    } else if (columns.end == half / 2) {
      is_stolen = true;
    } else {
      wait_for(has_begun);
    }
  });
  struct Job {
    FusedLinear& fused;
    std::vector<std::vector<float>> scratches;
  } job{fused, {2, std::vector<float>(static_cast<size_t>(fused.private_bytes() / 4), __builtin_nanf(""))}};
  const auto team = ThreadTeam::start(2, {}).value();
  team->run(
      [](void* context, Part part) {
        auto& [late, scratches] = *static_cast<Job*>(context);
        late.run(nullptr, reinterpret_cast<std::byte*>(scratches[static_cast<size_t>(part.worker)].data()), part);
      },
      &job);
  EXPECT_TRUE(is_stolen);
  EXPECT_TRUE(same_bits(found, product.run()));
  for (const auto& times : tails) EXPECT_EQ(times, 1);
}

TEST_P(Linear, GivesTheSameBitsWhateverTheWorkers) {
  for (const ProductShape& shape : kShapes) {
    const ProductFixture product{kernels(), dtype(), shape};
    const std::vector<float> alone = product.run();
    for (int workers : {2, 3, 7}) EXPECT_TRUE(same_bits(product.run(workers), alone)) << workers;
  }
}

TEST_P(Linear, GivesTheSameBitsWhereverTheOutputsAreDividedBetweenRanks) {
  const ProductFixture product{kernels(), dtype(), {3, 100, 129}};
  const std::vector<float> whole = product.run();
  for (int64_t cut : {1, 16, 37, 64, 99}) {
    const std::vector<float> low = product.with_outputs(0, cut).run();
    const std::vector<float> high = product.with_outputs(cut, 100).run();
    for (int64_t row = 0; row < 3; ++row) {
      for (int64_t column = 0; column < 100; ++column) {
        const float found = column < cut ? low[row * cut + column] : high[row * (100 - cut) + column - cut];
        ASSERT_EQ(found, whole[row * 100 + column]) << "cut " << cut << ", column " << column;
      }
    }
  }
}

/// Finishes the tree of `split` over the roots of all ranks.
std::vector<float> sum_over_ranks(const ProductFixture& product, const BlockSplit& split, int64_t block) {
  const TreeFinish finish = plan_finish(split);
  const auto elements = static_cast<size_t>(product.shape.rows * product.shape.n);
  std::vector<std::vector<float>> roots;
  for (int rank = 0; rank < split.ranks(); ++rank) {
    const Range leaves = split.range_of(rank);
    const int64_t end = std::min(leaves.end * block, product.shape.k);
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

TEST_P(Linear, SumsBlocksToTheSameBitsAtEveryDegree) {
  struct Case {
    int64_t leaves, block, k;
  };
  // The last leaf may be narrower; odd widths, leaves longer than a slab, and more leaves than ranks.
  for (const Case& c : {Case{9, 16, 144}, Case{7, 5, 33}, Case{5, 3, 15}, Case{3, 1100, 2500}, Case{13, 1, 13}}) {
    const ProductFixture product{kernels(), dtype(), {7, 33, c.k}};
    const std::vector<float> alone = sum_over_ranks(product, BlockSplit{{0, c.leaves}}, c.block);
    for (int64_t cut = 0; cut <= c.leaves; ++cut) {
      EXPECT_TRUE(same_bits(sum_over_ranks(product, BlockSplit{{0, cut, c.leaves}}, c.block), alone))
          << c.leaves << " leaves of " << c.block << " cut at " << cut;
    }
    const BlockSplit three{{0, c.leaves / 3, c.leaves / 2, c.leaves}};
    EXPECT_TRUE(same_bits(sum_over_ranks(product, three, c.block), alone));
  }
}

TEST_P(Linear, SumsTheLeavesOfARowToTheSameBitsWhateverTheOtherRows) {
  struct Case {
    int64_t leaves, block, k;
  };
  for (const Case& c : {Case{9, 16, 144}, Case{8, 64, 500}, Case{7, 5, 33}, Case{6, 600, 3500}, Case{2, 3, 4}}) {
    const ProductFixture product{kernels(), dtype(), {15, 75, c.k}};
    const BlockSplit split{{0, c.leaves}};
    const std::vector<float> together = product.run(2, split, 0, c.block);
    for (int64_t row = 0; row < product.shape.rows; ++row) {
      const std::vector<float> alone = product.with_rows(row, row + 1).run(1, split, 0, c.block);
      const auto begin = together.begin() + row * product.shape.n;
      EXPECT_TRUE(same_bits(alone, {begin, begin + product.shape.n})) << "row " << row << ", leaves of " << c.block;
    }
  }
}

TEST_P(Linear, RoundsASumOnce) {
  for (const ProductShape& shape : kShapes) {
    ProductFixture product{kernels(), dtype(), shape};
    std::vector<float> expected = product.run();
    for (float& number : expected) number = to_float(to_bfloat16(number));
    product.result_type = DType::kBFloat16;
    EXPECT_TRUE(same_bits(product.run(), expected)) << shape.rows;
  }
}

TEST_P(Linear, AddsLeavesInTheOrderOfTheTree) {
  // 2^24 + 1 + 1: from left to right each 1 is lost, as (2^24) + (1 + 1) neither is.
  ProductFixture product{kernels(), dtype(), {1, 1, 4}};
  product.x = {4096, 0, 1, 1};
  product.w = {4096, 0, 1, 1};
  EXPECT_EQ(product.run(1, BlockSplit{{0, 4}}, 0, 1)[0], 16777218.0f);
}

TEST_P(Linear, KeepsInfinityAndNanInTheirRowsAndColumns) {
  // K = 33 and a leaf of 3: the padding of pairs must not multiply a neighbour by zero.
  ProductFixture product{kernels(), dtype(), {3, 18, 33}};
  const std::vector<float> plain = product.run();
  const std::vector<float> leaves = product.run(1, BlockSplit{{0, 11}}, 0, 3);
  product.x[33] = std::numeric_limits<float>::infinity();             // row 1, the element after row 0's last
  product.w[17 * 33 + 32] = std::numeric_limits<float>::quiet_NaN();  // output 17, last column
  for (const bool in_leaves : {false, true}) {
    const std::vector<float> found = in_leaves ? product.run(1, BlockSplit{{0, 11}}, 0, 3) : product.run();
    const std::vector<float>& before = in_leaves ? leaves : plain;
    for (int64_t row : {0, 2}) {
      for (int64_t n = 0; n < 17; ++n) EXPECT_EQ(found[row * 18 + n], before[row * 18 + n]);
      EXPECT_TRUE(std::isnan(found[row * 18 + 17]));
    }
    for (int64_t n = 0; n < 17; ++n) EXPECT_FALSE(std::isfinite(found[18 + n]));
  }
}

TEST(LinearPlan, CutsLongSumsIntoSlabsThatContinue) {
  const Packing packing = Packing::for_leaves(16, 1500, 1500, DType::kFloat32, false);
  const LinearPlan plan = LinearPlan::plain(packing);
  ASSERT_EQ(plan.segments.size(), 3u);
  EXPECT_EQ(plan.slabs, (std::vector<int64_t>{0, 1, 2, 3}));
  EXPECT_TRUE(plan.segments[0].opens);
  EXPECT_FALSE(plan.segments[1].opens);
  EXPECT_EQ(plan.segments[2].root, 0);
  EXPECT_EQ(plan.levels, 1);
}

TEST(LinearPlan, CutsSumsOfFewRowsShorterWhereStripsPassOneAfterTheOther) {
  // Leaves of 100 steps, the second of which closes the root.
  const Packing packing = Packing::for_leaves(16, 200, 100, DType::kFloat32, false);
  const LinearPlan plan = LinearPlan::blocks(packing, BlockSplit{{0, 2}}, 0, 100);
  ASSERT_EQ(plan.few.size(), 4u);
  const LinearPlan cut = plan.in_short_slabs();
  ASSERT_EQ(cut.few.size(), 14u);  // of a leaf 64 and 36: four of 16, two of 16, one of 4
  EXPECT_EQ(cut.few[6].steps, 4);
  EXPECT_FALSE(cut.few[4].opens);
  EXPECT_TRUE(cut.few[7].opens);
  EXPECT_EQ(cut.few[12].merges, 0);
  EXPECT_EQ(cut.few[13].merges, 1);
  EXPECT_EQ(cut.few[13].root, 0);
  ASSERT_EQ(cut.streamed.size(), 2u);  // leaves are whole
  EXPECT_EQ(cut.streamed[1].begin, 100);
  EXPECT_EQ(cut.streamed[1].steps, 100);
  EXPECT_EQ(cut.streamed[1].merges, 1);
  EXPECT_EQ(cut.streamed[1].root, 0);
}

TEST(LinearPlan, CutsSumsForTilesIntoSlabsOfOneShape) {
  // Leaves of 12 steps, the last one of 4; then one sum of 136 steps, whose last 8 form a separate slab.
  const Packing leaves = Packing::for_leaves(16, 3 * 24 + 8, 24, DType::kBFloat16, true);
  const LinearPlan tiled = LinearPlan::blocks(leaves, BlockSplit{{0, 4}}, 0, 24).in_tiles();
  EXPECT_EQ(tiled.segments.size(), 4u);
  EXPECT_EQ(tiled.slabs, (std::vector<int64_t>{0, 3, 4}));
  const Packing plain = Packing::for_leaves(16, 272, 272, DType::kBFloat16, true);
  const LinearPlan long_sum = LinearPlan::plain(plain).in_tiles();
  EXPECT_EQ(long_sum.slabs, (std::vector<int64_t>{0, 1, 2, 3}));
  EXPECT_EQ(long_sum.segments[2].steps, 8);
  EXPECT_FALSE(long_sum.segments[2].opens);
  EXPECT_EQ(long_sum.segments[2].root, 0);
}

TEST(LinearPlan, HasNothingToDoForARankWithoutLeaves) {
  const Packing packing = Packing::for_leaves(16, 0, 8, DType::kFloat32, false);
  EXPECT_TRUE(LinearPlan::blocks(packing, BlockSplit{{0, 0, 3}}, 0, 8).segments.empty());
}

}  // namespace
}  // namespace lockstep::cpu
