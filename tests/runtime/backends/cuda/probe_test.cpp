// The kernels of the probes, in three orders of threads: they read and multiply what they are said to.
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "runtime/backends/cuda/kernels/probe_parameters.h"
#include "tests/cuda_stand_in/simt.h"

namespace lockstep::cuda {
namespace {

class ProbeKernels : public testing::TestWithParam<simt::Order> {
 protected:
  void run(const char* kernel, int blocks, const void* parameters, int shared_bytes = 0) {
    ASSERT_NE(simt::find_kernel(kernel), nullptr) << kernel;
    EXPECT_EQ(simt::run(*simt::find_kernel(kernel),
                        {.blocks = blocks,
                         .threads = kProbeThreads,
                         .shared_bytes = static_cast<size_t>(shared_bytes),
                         .order = GetParam()},
                        parameters),
              "");
  }
};

TEST_P(ProbeKernels, ReadEveryWordOnce) {
  constexpr int64_t kTiles = 5;
  std::vector<uint32_t> words(kTiles * probe_tile_bytes(8) / sizeof(uint32_t) + 4);
  auto* const aligned = words.data() + (16 - reinterpret_cast<uintptr_t>(words.data()) % 16) % 16 / sizeof(uint32_t);
  const size_t count = kTiles * probe_tile_bytes(8) / sizeof(uint32_t);
  const ProbeFillParameters fill{.words = aligned, .fours = static_cast<int64_t>(count) / 4};
  run("probe_fill", 3, &fill);
  for (size_t i = 0; i < count; ++i) {
    ASSERT_EQ(aligned[i], static_cast<uint32_t>(i) * kProbeFactor + kProbeOffset) << i;
  }
  const uint32_t expected = std::accumulate(aligned, aligned + count, 0u);
  std::vector<uint32_t> sums(2 * kProbeThreads / 32);
  const ProbeReadParameters read{.words = aligned, .sums = sums.data(), .tiles = kTiles};
  run("probe_read_8", 2, &read);  // blocks have three and two tiles
  EXPECT_EQ(std::accumulate(sums.begin(), sums.end(), 0u), expected);
}

TEST_P(ProbeKernels, MultiplyAsOftenAsAsked) {
  for (const char* kernel :
       {"probe_multiply_f32", "probe_multiply_bf16", "probe_multiply_f16", "probe_multiply_int8"}) {
    std::vector<uint32_t> once(kProbeThreads / 32), thrice(once.size());
    ProbeMultiplyParameters parameters{.sums = once.data(), .times = 1};
    run(kernel, 1, &parameters);
    EXPECT_NE(once.front(), 0u) << kernel;
    parameters = {.sums = thrice.data(), .times = 3};
    run(kernel, 1, &parameters);
    for (size_t warp = 0; warp < once.size(); ++warp) EXPECT_EQ(thrice[warp], 3 * once.front()) << kernel;
  }
}

// By plain loops over the same factors: what a warpgroup adds to each sum, for both of a block's.
TEST_P(ProbeKernels, MultiplyMatricesInSharedMemory) {
  const auto factor = [](int seed) {
    return (static_cast<int>((static_cast<uint32_t>(seed) * kProbeFactor >> 16) % 7) - 3) / 2;
  };
  const auto place = [](int row, int k) { return (row / 8 * 2 + k / 8) * 64 + row % 8 * 8 + k % 8; };
  std::vector<uint32_t> expected(kProbeThreads / 32);
  for (int warp = 0; warp < kProbeThreads / 32; ++warp) {
    int sum = 0;
    for (int row = warp % 4 * 16; row < warp % 4 * 16 + 16; ++row) {
      for (int column = 0; column < 128; ++column) {
        for (int k = 0; k < 16; ++k) sum += factor(place(row, k)) * factor(place(column, k) + 4096);
      }
    }
    expected[static_cast<size_t>(warp)] = static_cast<uint32_t>(kProbeGroups * sum);
  }
  for (const char* kernel : {"probe_multiply_groups_bf16", "probe_multiply_groups_f16"}) {
    std::vector<uint32_t> sums(expected.size());
    const ProbeMultiplyParameters parameters{.sums = sums.data(), .times = 1};
    run(kernel, 1, &parameters, kProbeGroupsSharedBytes);
    EXPECT_EQ(sums, expected) << kernel;
  }
}

INSTANTIATE_TEST_SUITE_P(InThreeOrders, ProbeKernels,
                         testing::Values(simt::Order::kUp, simt::Order::kDown, simt::Order::kShuffled));

}  // namespace
}  // namespace lockstep::cuda
