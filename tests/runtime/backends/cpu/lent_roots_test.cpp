// Products write the roots of a sum into the communicator's buffer (`Communicator::place_for_roots`).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/backends/cpu/cpu.h"
#include "runtime/graph/builder.h"

namespace lockstep::cpu {
namespace {

using device::Stream;
using device::TreeSum;
using graph::GraphBuilder;
using graph::ValueId;
using ::testing::ElementsAre;

/// Rank 0 of two; the other one adds nothing.
class LendingCommunicator final : public device::Communicator {
 public:
  explicit LendingCommunicator(size_t most_elements) : place_(most_elements) {}

  int rank() const override { return 0; }
  int size() const override { return 2; }
  std::string name() const override { return "lending"; }
  Result<void> all_reduce(const TreeSum&, std::span<const float> roots, std::span<float> dst, Stream) override {
    roots_were_there.push_back(roots.data() == place_.data());
    std::ranges::copy(roots.first(dst.size()), dst.begin());
    return ok();
  }
  std::span<float> place_for_roots(const TreeSum&, size_t elements) override {
    if (elements > place_.size()) return {};
    return std::span(place_).first(elements);
  }
  Result<void> all_gather(std::span<const std::byte>, std::span<const int64_t>, std::span<std::byte>, Stream) override {
    return ok();
  }
  Result<void> broadcast(std::span<std::byte>, int, Stream) override { return ok(); }
  Result<void> barrier(Stream) override { return ok(); }
  device::OperationMark last_operation() const override { return {}; }

  std::vector<bool> roots_were_there;  // of each sum

 private:
  std::vector<float> place_;
};

constexpr int64_t kRows = 2, kWidth = 4;
const BlockSplit kSplit{{0, 1, 2}};

/// Three sums: of x · wᵀ, of that one · wᵀ, and of the second's roots, which are an output, too.
graph::Graph three_sums() {
  GraphBuilder builder({.name = "decode", .ranks = 2, .rank = 0, .rows = kRows, .slots = kRows});
  const ValueId w = builder.weight("w", {DType::kFloat32, {kWidth, kWidth}}, {{"w", {{0, kWidth}, {0, kWidth}}}});
  ValueId x = builder.input("x", {DType::kFloat32, {kRows, kWidth}});
  for (int sum = 0; sum < 2; ++sum) {
    x = builder.all_reduce(builder.linear_blocks(x, w, kSplit, kWidth), kSplit, DType::kFloat32);
  }
  const ValueId roots = builder.linear_blocks(x, w, kSplit, kWidth);
  builder.output("roots", roots);
  builder.output("y", builder.all_reduce(roots, kSplit, DType::kFloat32));
  return std::move(builder).finish();
}

/// Runs it twice with w = 2 · 1 (unit matrix) and x = 0, 1, 2 …; returns y.
std::vector<float> run_three_sums(LendingCommunicator& communicator, int threads) {
  const graph::Graph graph = three_sums();
  const device::StepGraph steps[] = {graph};
  const auto backend = make_backend({.threads = threads}).value();
  const auto store = backend->make_store(steps).value();
  std::vector<float> w(kWidth * kWidth), x(kRows * kWidth);
  for (int64_t i = 0; i < kWidth; ++i) w[static_cast<size_t>(i * kWidth + i)] = 2.0f;
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  EXPECT_TRUE(store->set_weight("w", std::as_bytes(std::span(w))).has_value());
  const auto executable = backend->compile(graph, *store, {.communicator = &communicator}).value();
  const std::vector<device::HostTensor> inputs = {{{DType::kFloat32, {kRows, kWidth}}, std::as_bytes(std::span(x))}};
  for (int step = 0; step < 2; ++step) EXPECT_TRUE(executable->run(inputs).has_value());
  std::vector<float> y(x.size());
  const std::span<const std::byte> bytes = executable->output("y");
  EXPECT_EQ(bytes.size(), y.size() * sizeof(float));
  std::ranges::copy(bytes, std::as_writable_bytes(std::span(y)).begin());
  return y;
}

TEST(LentRoots, AreWrittenInTheirPlaceUnlessAnotherReadsThemOrNoCollectiveCameBefore) {
  for (const int threads : {1, 2}) {
    LendingCommunicator communicator(kRows * kWidth);
    EXPECT_THAT(run_three_sums(communicator, threads), ElementsAre(0, 8, 16, 24, 32, 40, 48, 56));
    EXPECT_THAT(communicator.roots_were_there, ElementsAre(false, true, false, false, true, false));
  }
}

TEST(LentRoots, StayInTheWorkspaceWhereThereIsNoPlace) {
  LendingCommunicator communicator(/*most_elements=*/1);
  EXPECT_THAT(run_three_sums(communicator, /*threads=*/1), ElementsAre(0, 8, 16, 24, 32, 40, 48, 56));
  EXPECT_THAT(communicator.roots_were_there, ElementsAre(false, false, false, false, false, false));
}

}  // namespace
}  // namespace lockstep::cpu
