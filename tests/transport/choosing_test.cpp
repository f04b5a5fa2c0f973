#include "transport/choosing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace lockstep::transport {
namespace {

using device::Communicator;
using device::Stream;
using device::TreeSum;

/// A group of one whose operations take a known time on a manual clock.
class TimedCommunicator final : public Communicator {
 public:
  TimedCommunicator(std::string name, ManualClock& clock, Duration fixed, Duration per_kib)
      : name_(std::move(name)), clock_(clock), fixed_(fixed), per_kib_(per_kib) {}

  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::string name() const override { return name_; }
  Result<void> all_reduce(const TreeSum&, std::span<const float>, std::span<float> dst, Stream) override {
    return take(dst.size_bytes());
  }
  Result<void> all_gather(std::span<const std::byte>, std::span<const int64_t>, std::span<std::byte> dst,
                          Stream) override {
    return take(dst.size());
  }
  Result<void> broadcast(std::span<std::byte> bytes, int, Stream) override { return take(bytes.size()); }
  Result<void> barrier(Stream) override { return take(0); }
  device::OperationMark last_operation() const override { return {}; }

  int operations = 0;
  std::optional<Error> failure;

 private:
  Result<void> take(size_t bytes) {
    if (failure) return *failure;
    ++operations;
    clock_.advance(fixed_ + per_kib_ * static_cast<int64_t>(bytes / 1024));
    return ok();
  }

  std::string name_;
  ManualClock& clock_;
  Duration fixed_;
  Duration per_kib_;
};

class Choosing : public ::testing::Test {
 protected:
  using Candidates = std::vector<std::unique_ptr<Communicator>>;

  std::unique_ptr<TimedCommunicator> timed(const char* name, int fixed_us, int per_kib_ns) {
    return std::make_unique<TimedCommunicator>(name, clock_, std::chrono::microseconds(fixed_us),
                                               std::chrono::nanoseconds(per_kib_ns));
  }

  ManualClock clock_;
  AbortFlag abort_;
  WaitOptions wait_{.abort = &abort_, .clock = &clock_};
  std::unique_ptr<Bootstrap> bootstrap_ = make_single_bootstrap();
};

TEST_F(Choosing, TakesTheFasterWayOfEachSize) {
  // 1 µs + 100 ns/KiB against 5 µs + 10 ns/KiB: the lines cross at 44 KiB.
  Candidates ways;
  ways.push_back(timed("near", 1, 100));
  ways.push_back(timed("far", 5, 10));
  auto* const near = static_cast<TimedCommunicator*>(ways[0].get());
  auto* const far = static_cast<TimedCommunicator*>(ways[1].get());
  std::vector<Choice> choices;
  const auto chosen = choose_communicator(*bootstrap_, std::move(ways), wait_, &choices).value();
  ASSERT_EQ(choices.size(), 7u);
  for (const Choice& choice : choices) {
    EXPECT_EQ(choice.name, choice.bytes < 44 * 1024 ? "near" : "far") << choice.bytes;
    const double kib = static_cast<double>(choice.bytes) / 1024;
    const double expected = 2 * std::min(1 + 0.1 * kib, 5 + 0.01 * kib);  // an all-reduce and an all-gather
    EXPECT_NEAR(choice.microseconds, expected, 0.01) << choice.bytes;     // travels with three decimals
  }
  EXPECT_EQ(chosen->name(), "choosing (near, far)");

  const int near_before = near->operations;
  const int far_before = far->operations;
  std::vector<std::byte> small(100), large(10 << 20);
  ASSERT_TRUE(chosen->broadcast(small, 0, Stream::host()).has_value());
  ASSERT_TRUE(chosen->barrier(Stream::host()).has_value());
  EXPECT_EQ(near->operations, near_before + 2);
  ASSERT_TRUE(chosen->broadcast(large, 0, Stream::host()).has_value());
  EXPECT_EQ(far->operations, far_before + 1);
  EXPECT_EQ(chosen->last_operation().sequence, 3u);
}

TEST_F(Choosing, HandsASingleWayBack) {
  Candidates ways;
  ways.push_back(timed("only", 1, 1));
  std::vector<Choice> choices;
  const auto chosen = choose_communicator(*bootstrap_, std::move(ways), wait_, &choices).value();
  EXPECT_EQ(chosen->name(), "only");
  for (const Choice& choice : choices) EXPECT_EQ(choice.name, "only");
}

TEST_F(Choosing, FailsWithTheWayThatFails) {
  Candidates ways;
  ways.push_back(timed("good", 1, 1));
  ways.push_back(timed("broken", 1, 1));
  static_cast<TimedCommunicator*>(ways[1].get())->failure = Error{ErrorKind::kPeerLost, "[test] gone"};
  EXPECT_EQ(choose_communicator(*bootstrap_, std::move(ways), wait_, nullptr).error().message, "[test] gone");
}

TEST_F(Choosing, IsUnusableAfterOneWayFailed) {
  Candidates ways;
  ways.push_back(timed("near", 1, 100));
  ways.push_back(timed("far", 5, 10));
  auto* const near = static_cast<TimedCommunicator*>(ways[0].get());
  const auto chosen = choose_communicator(*bootstrap_, std::move(ways), wait_, nullptr).value();
  near->failure = Error{ErrorKind::kPeerLost, "[test] gone"};
  std::vector<std::byte> large(10 << 20);
  ASSERT_FALSE(chosen->barrier(Stream::host()).has_value());
  EXPECT_EQ(chosen->broadcast(large, 0, Stream::host()).error().message, "[test] gone");
}

}  // namespace
}  // namespace lockstep::transport
