#include "launcher/process/process_barrier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace lockstep::launcher {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

constexpr Duration kLong = 60s;

/// A started barrier and the ends that its members' processes would have inherited.
struct Started {
  explicit Started(size_t members) : barrier(ProcessBarrier::create(members).value()) {
    for (size_t i = 0; i < members; ++i) ends.emplace_back(::dup(barrier->end_of(i)));
    barrier->start();
  }

  BarrierEnd end(size_t member) const { return BarrierEnd(ends.at(member).get()); }

  std::unique_ptr<ProcessBarrier> barrier;
  std::vector<Descriptor> ends;
};

TEST(ProcessBarrier, ReleasesItsMembersWhenAllHaveArrivedEachTime) {
  const Started started(3);
  for (int round = 0; round < 100; ++round) {
    for (size_t member : {2, 0}) ASSERT_TRUE(started.end(member).arrive().has_value());
    ASSERT_FALSE(started.end(0).wait(Duration::zero()).value());
    ASSERT_TRUE(started.end(1).arrive().has_value());
    for (size_t member : {0, 1, 2}) ASSERT_TRUE(started.end(member).wait(kLong).value()) << round;
  }
}

TEST(ProcessBarrier, LetsNoMemberWaitForOneThatHasEnded) {
  Started started(3);
  ASSERT_TRUE(started.end(0).arrive().has_value());
  started.ends[2].close();
  const auto waited = started.end(0).wait(kLong);
  ASSERT_FALSE(waited.has_value());
  EXPECT_EQ(waited.error().kind, ErrorKind::kFailedPrecondition);
  static_cast<void>(started.end(1).arrive());  // a later one; it may be told when it arrives or when it waits
  EXPECT_FALSE(started.end(1).wait(kLong).has_value());
  EXPECT_EQ(started.barrier->first_gone(), 2u);
}

TEST(ProcessBarrier, EndsWhileItsMembersWait) {
  Started started(2);
  ASSERT_TRUE(started.end(0).arrive().has_value());
  started.barrier.reset();
  EXPECT_FALSE(started.end(0).wait(kLong).has_value());
}

TEST(ProcessBarrier, RefusesADescriptorThatIsNoSocket) {
  const auto arrived = BarrierEnd(999).arrive();
  ASSERT_FALSE(arrived.has_value());
  EXPECT_EQ(arrived.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_THAT(arrived.error().message, HasSubstr("omit --barrier"));
}

}  // namespace
}  // namespace lockstep::launcher
