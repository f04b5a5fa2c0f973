#include "transport/collective_probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <thread>
#include <vector>

#include "transport/loopback/loopback.h"

namespace lockstep::transport {
namespace {

using ::testing::HasSubstr;

/// Changes one element of another communicator's result.
class LyingCommunicator final : public device::Communicator {
 public:
  LyingCommunicator(std::unique_ptr<device::Communicator> honest, Collective lie)
      : honest_(std::move(honest)), lie_(lie) {}

  int rank() const override { return honest_->rank(); }
  int size() const override { return honest_->size(); }
  std::string name() const override { return "liar"; }
  Result<void> all_reduce(const device::TreeSum& sum, std::span<const float> roots, std::span<float> dst,
                          device::Stream stream) override {
    auto done = honest_->all_reduce(sum, roots, dst, stream);
    if (lie_ == Collective::kAllReduce) dst.back() += 1;
    return done;
  }
  Result<void> all_gather(std::span<const std::byte> src, std::span<const int64_t> counts, std::span<std::byte> dst,
                          device::Stream stream) override {
    auto done = honest_->all_gather(src, counts, dst, stream);
    if (lie_ == Collective::kAllGather) dst.back() ^= std::byte{1};
    return done;
  }
  Result<void> broadcast(std::span<std::byte> bytes, int root, device::Stream stream) override {
    auto done = honest_->broadcast(bytes, root, stream);
    if (lie_ == Collective::kBroadcast) bytes.back() ^= std::byte{1};
    return done;
  }
  Result<void> barrier(device::Stream stream) override { return honest_->barrier(stream); }
  device::OperationMark last_operation() const override { return honest_->last_operation(); }

 private:
  std::unique_ptr<device::Communicator> honest_;
  Collective lie_;
};

/// Runs `work(communicator)` on every rank of a group of threads.
template <typename Work>
void on_ranks(int size, Work work) {
  const SteadyClock clock;
  AbortFlag abort;
  const auto group = loopback::make_group(size);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back(
        [&, rank] { work(loopback::make_communicator(group, rank, {.abort = &abort, .clock = &clock}), clock); });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(CheckCollectives, PassesWhatIsRightOnAnyNumberOfRanks) {
  for (const int size : {1, 2, 3, 5}) {
    on_ranks(size, [](auto way, const Clock&) { EXPECT_TRUE(check_collectives(*way).has_value()); });
  }
}

TEST(CheckCollectives, NamesTheCollectiveThatIsWrong) {
  for (const Collective lie : {Collective::kAllReduce, Collective::kAllGather, Collective::kBroadcast}) {
    on_ranks(2, [lie](auto way, const Clock&) {
      LyingCommunicator liar(std::move(way), lie);
      const auto checked = check_collectives(liar);
      ASSERT_FALSE(checked.has_value());
      EXPECT_THAT(checked.error().message, HasSubstr("liar gives a wrong " + std::string(to_string(lie))));
    });
  }
}

TEST(CollectiveProbe, TimesEveryCollectiveOfAnySizeUpToItsLargest) {
  on_ranks(3, [](auto way, const Clock& clock) {
    CollectiveProbe probe(3, /*most_bytes=*/1 << 20, clock);
    constexpr std::array kAll = {Collective::kAllReduce, Collective::kAllGather, Collective::kBroadcast};
    for (const int64_t bytes : {8, 1000, 1 << 20}) {
      const auto seconds = probe.time(*way, kAll, bytes, /*repeats=*/2);
      ASSERT_TRUE(seconds.has_value());
      EXPECT_GT(seconds.value(), 0.0);
    }
  });
}

}  // namespace
}  // namespace lockstep::transport
