// Sums over ranks that are threads, each with its own grid, over memory that all of them see.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <random>
#include <thread>
#include <tuple>
#include <vector>

#include "runtime/backends/cuda/kernels/parameters.h"
#include "runtime/backends/cuda/sum_parts.h"
#include "runtime/core/block_tree.h"
#include "runtime/core/dtype.h"
#include "tests/cuda_stand_in/simt.h"

namespace lockstep::cuda {
namespace {

using testing::Combine;
using testing::Values;

constexpr int kBlocks = 2;
constexpr int32_t kElements = 700;  // more than the threads of both blocks
constexpr uint32_t kMeetings = 4;   // of a step

/// A sum of a step.
struct OneSum {
  uint32_t meeting;  // its first
  bool is_sliced;    // it has two
};
const std::vector<OneSum> kAtOnce = {{0, false}, {1, false}, {2, false}, {3, false}};
const std::vector<OneSum> kInSlices = {{0, true}, {2, true}};
const std::vector<OneSum> kMixed = {{0, false}, {1, true}, {3, false}};

/// The memory of a rank that its peers see, and what it alone uses.
struct Rank {
  std::array<std::vector<float>, 2> halves;  // meeting i uses half i mod 2, of roots or slices
  std::vector<uint32_t> flags;
  uint32_t step = 0;
  uint32_t missing = 0;
  uint32_t abort = 0;
  std::vector<uint16_t> y = std::vector<uint16_t>(kElements);
};

class Sum {
 public:
  explicit Sum(std::vector<int64_t> bounds) : split_{std::move(bounds)}, finish_(plan_finish(split_)) {
    plan_.assign(finish_.first_root.begin(), finish_.first_root.end());
    for (const TreeFinish::Step& step : finish_.steps) plan_.insert(plan_.end(), {step.dst, step.src});
    ranks_.resize(static_cast<size_t>(split_.ranks()));
    for (Rank& rank : ranks_) {
      rank.flags.assign(ranks_.size() * kMostBlocks, 0);
      for (auto& half : rank.halves) half.resize(static_cast<size_t>(split_.leaves() * kElements));
    }
  }

  int ranks() const { return split_.ranks(); }
  Rank& rank(int r) { return ranks_[static_cast<size_t>(r)]; }
  const std::vector<uint16_t>& residual() const { return residual_; }

  /// Runs one sum of rank `r`, whose roots are those of `leaves`.
  std::string run(int r, OneSum which, simt::Order order, std::chrono::milliseconds patience) {
    SlicedSumParameters sliced{};
    SumParameters& p = sliced.sum;
    for (int peer = 0; peer < ranks(); ++peer) {
      p.roots[peer] = rank(peer).halves[which.meeting % 2].data();
      p.meeting.flags[peer] = rank(peer).flags.data();
      sliced.slices[peer] = rank(peer).halves[(which.meeting + 1) % 2].data();
    }
    p.plan = plan_.data();
    p.meeting.ranks = ranks();
    p.meeting.rank = r;
    p.additions = static_cast<int32_t>(finish_.steps.size());
    p.result = finish_.result;
    p.meeting.step = &rank(r).step;
    p.meeting.meetings = kMeetings;
    p.meeting.index = which.meeting;
    p.rows = {nullptr, 1};
    p.columns = kElements;
    p.y_type = kBf16;
    p.is_even = is_even_tree(finish_);
    p.residual = residual_.data();
    p.y = rank(r).y.data();
    p.meeting.abort = &rank(r).abort;
    p.meeting.missing = &rank(r).missing;
    p.meeting.patience = static_cast<uint64_t>(std::chrono::nanoseconds(patience).count());
    const char* kernel = which.is_sliced ? "sum_in_slices" : "sum_of_ranks";
    return simt::run(*simt::find_kernel(kernel),
                     {.blocks = kBlocks,
                      .threads = kMeetThreads,
                      .shared_bytes = static_cast<size_t>(finish_.roots()) * kMeetThreads * sizeof(float),
                      .side_by_side = true,
                      .order = order},
                     which.is_sliced ? static_cast<const void*>(&sliced) : &p);
  }

  /// The leaf sums of a step: the same on every rank.
  std::vector<std::vector<float>> leaves(uint32_t step, uint32_t meeting) const {
    std::mt19937 random(step * kMeetings + meeting);
    std::normal_distribution<float> normal;
    std::vector<std::vector<float>> leaves(static_cast<size_t>(split_.leaves()), std::vector<float>(kElements));
    for (auto& leaf : leaves) {
      for (float& value : leaf) value = normal(random);
    }
    return leaves;
  }

  /// The roots of a rank, each summed along the tree.
  void write_roots(int r, uint32_t step, uint32_t meeting) {
    const auto values = leaves(step, meeting);
    float* roots = rank(r).halves[meeting % 2].data();
    for (const Range& root : split_.roots_of(r)) {
      for (int64_t i = 0; i < kElements; ++i) *roots++ = subtree(values, root.begin, root.size(), i);
    }
  }

  uint16_t expected(uint32_t step, uint32_t meeting, int64_t i) const {
    const auto values = leaves(step, meeting);
    const float sum = subtree(values, 0, split_.leaves(), i);
    return to_bfloat16(to_float(to_bfloat16(sum)) + to_float(BFloat16{residual_[static_cast<size_t>(i)]})).bits;
  }

 private:
  /// The sum of `count` leaves along the complete tree that is clipped at the last one.
  static float subtree(const std::vector<std::vector<float>>& leaves, int64_t begin, int64_t count, int64_t i) {
    if (count == 1) return leaves[static_cast<size_t>(begin)][static_cast<size_t>(i)];
    int64_t left = 1;
    while (2 * left < count) left *= 2;
    return subtree(leaves, begin, left, i) + subtree(leaves, begin + left, count - left, i);
  }

  BlockSplit split_;
  TreeFinish finish_;
  std::vector<int32_t> plan_;
  std::vector<Rank> ranks_;
  std::vector<uint16_t> residual_ = std::vector<uint16_t>(kElements, to_bfloat16(0.75f).bits);
};

class SumOfRanks : public testing::TestWithParam<std::tuple<std::vector<int64_t>, std::vector<OneSum>>> {
 protected:
  /// Runs steps of sums on every rank and expects the same bits everywhere.
  void run_steps(simt::Order order, uint32_t steps) {
    Sum sum(std::get<0>(GetParam()));
    std::vector<std::thread> threads;
    std::vector<std::string> errors(static_cast<size_t>(sum.ranks()));
    std::vector<int> wrong(static_cast<size_t>(sum.ranks()));
    for (int r = 0; r < sum.ranks(); ++r) {
      threads.emplace_back([&, r] {
        const auto own = static_cast<size_t>(r);
        for (uint32_t step = 0; step < steps; ++step) {
          for (const OneSum& which : std::get<1>(GetParam())) {
            sum.write_roots(r, step, which.meeting);
            errors[own] += sum.run(r, which, order, std::chrono::seconds(60));
            for (int64_t i = 0; i < kElements; i += 97) {
              wrong[own] += sum.rank(r).y[static_cast<size_t>(i)] != sum.expected(step, which.meeting, i);
            }
          }
          ++sum.rank(r).step;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (int r = 0; r < sum.ranks(); ++r) {
      EXPECT_EQ(errors[static_cast<size_t>(r)], "");
      EXPECT_EQ(wrong[static_cast<size_t>(r)], 0) << "rank " << r;
      EXPECT_EQ(sum.rank(r).missing, 0u);
    }
  }
};

TEST_P(SumOfRanks, AddsAlongTheTreeWhateverTheCut) {
  run_steps(simt::Order::kShuffled, 2);
  if (std::get<1>(GetParam()).front().is_sliced || std::get<0>(GetParam()).size() > 6) return;
  for (const simt::Order order : {simt::Order::kUp, simt::Order::kDown}) run_steps(order, 2);
}

INSTANTIATE_TEST_SUITE_P(Cuts, SumOfRanks,
                         Combine(Values(std::vector<int64_t>{0, 8}, std::vector<int64_t>{0, 4, 8},
                                        std::vector<int64_t>{0, 3, 4, 8}, std::vector<int64_t>{0, 1, 5, 6, 11},
                                        std::vector<int64_t>{0, 2, 2, 4, 7, 8},
                                        std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8}),
                                 Values(kAtOnce, kInSlices, kMixed)));

TEST(SumOfRanksAlone, TakesTheEvenTreeWhereItIsTheSame) {
  for (const auto& bounds : std::vector<std::vector<int64_t>>{{0, 8}, {0, 4, 8}, {0, 2, 4, 6, 8}, {0, 2, 4, 5}}) {
    EXPECT_TRUE(is_even_tree(plan_finish({bounds}))) << bounds.size();
  }
  for (const auto& bounds : std::vector<std::vector<int64_t>>{{0, 3, 8}, {0, 2, 3, 4}, {0, 0, 4}}) {
    EXPECT_FALSE(is_even_tree(plan_finish({bounds}))) << bounds.size();
  }
}

TEST(SumOfRanksAlone, NamesTheRankThatDoesNotCome) {
  Sum sum({0, 4, 8});
  for (int r = 0; r < 2; ++r) sum.write_roots(r, 0, 0);
  EXPECT_EQ(sum.run(0, kAtOnce[0], simt::Order::kUp, std::chrono::milliseconds(20)), "");
  EXPECT_EQ(sum.rank(0).missing, 2u);
}

TEST(SumOfRanksAlone, GivesUpWhenItIsTold) {
  Sum sum({0, 4, 8});
  for (int r = 0; r < 2; ++r) sum.write_roots(r, 0, 0);
  sum.rank(0).abort = 1;
  EXPECT_EQ(sum.run(0, kAtOnce[0], simt::Order::kUp, std::chrono::hours(1)), "");
  EXPECT_EQ(sum.rank(0).missing, 0u);
}

}  // namespace
}  // namespace lockstep::cuda
