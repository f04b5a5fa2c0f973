#include "transport/mpi/funneled_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "tests/conformance/communicator/waits.h"

namespace lockstep::transport::mpi {
namespace {

using conformance::Ends;
using ::testing::HasSubstr;
using Ran = FunneledQueue::Ran;

/// Ends when the test requests it; records the polling thread.
class FakeWork final : public PolledWork {
 public:
  explicit FakeWork(std::function<bool()> is_over = [] { return true; }) : is_over_(std::move(is_over)) {}

  bool poll() override {
    thread = std::this_thread::get_id();
    ++polls;
    return is_over_();
  }
  void abandon() override { is_abandoned = true; }

  std::atomic<int> polls = 0;
  std::atomic<bool> is_abandoned = false;
  std::thread::id thread;

 private:
  std::function<bool()> is_over_;
};

/// Runs `work` on another thread.
std::future<Ran> run_elsewhere(FunneledQueue& queue, const std::shared_ptr<FakeWork>& work, const Ends& ends) {
  return std::async(std::launch::async, [&queue, work, &ends] { return queue.run(work, ends.wait); });
}

bool is_ready(std::future<Ran>& ran) { return ran.wait_for(std::chrono::seconds(0)) == std::future_status::ready; }

TEST(FunneledQueue, RunsTheOwnersWorkAtOnce) {
  FunneledQueue queue;
  const Ends ends;
  int polls_left = 3;
  const auto work = std::make_shared<FakeWork>([&] { return --polls_left == 0; });
  EXPECT_EQ(queue.run(work, ends.wait), Ran::kOver);
  EXPECT_EQ(work->polls, 3);
}

TEST(FunneledQueue, PollsAnotherThreadsWorkOnTheOwnersThread) {
  FunneledQueue queue;
  const Ends ends;
  const auto work = std::make_shared<FakeWork>();
  std::future<Ran> ran = run_elsewhere(queue, work, ends);
  ASSERT_TRUE(queue.serve([&] { return is_ready(ran); }, ends.wait).has_value());
  EXPECT_EQ(ran.get(), Ran::kOver);
  EXPECT_EQ(work->thread, std::this_thread::get_id());
}

TEST(FunneledQueue, PollsWorksInTurnBecauseEachMayWaitForThePeerOfTheOther) {
  FunneledQueue queue;
  const Ends ends;
  std::shared_ptr<FakeWork> first, second;
  first = std::make_shared<FakeWork>([&] { return second->polls > 0; });
  second = std::make_shared<FakeWork>([&] { return first->polls > 0; });
  std::future<Ran> one = run_elsewhere(queue, first, ends), two = run_elsewhere(queue, second, ends);
  ASSERT_TRUE(queue.serve([&] { return is_ready(one) && is_ready(two); }, ends.wait).has_value());
  EXPECT_EQ(one.get(), Ran::kOver);
  EXPECT_EQ(two.get(), Ran::kOver);
}

TEST(FunneledQueue, PollsOtherThreadsWorkWhileTheOwnerRunsItsOwn) {
  FunneledQueue queue;
  const Ends ends;
  const auto other = std::make_shared<FakeWork>();
  const auto own = std::make_shared<FakeWork>([&] { return other->polls > 0; });
  std::future<Ran> ran = run_elsewhere(queue, other, ends);
  EXPECT_EQ(queue.run(own, ends.wait), Ran::kOver);
  EXPECT_EQ(ran.get(), Ran::kOver);
}

TEST(FunneledQueue, KeepsAnUnfinishedWorkForTheOwnersNextTime) {
  FunneledQueue queue;
  const Ends ends;
  std::atomic<bool> may_end = false;
  const auto other = std::make_shared<FakeWork>([&] { return may_end.load(); });
  std::future<Ran> ran = run_elsewhere(queue, other, ends);
  ASSERT_TRUE(queue.serve([&] { return other->polls > 0; }, ends.wait).has_value());
  EXPECT_FALSE(is_ready(ran));
  may_end = true;
  ASSERT_TRUE(queue.serve([&] { return is_ready(ran); }, ends.wait).has_value());
  EXPECT_EQ(ran.get(), Ran::kOver);
}

TEST(FunneledQueue, TellsOfAnOwnerThatDoesNotServeWithinTheDeadline) {
  FunneledQueue queue;
  Ends ends;
  ends.clock.run_fast();
  const auto work = std::make_shared<FakeWork>();
  EXPECT_EQ(run_elsewhere(queue, work, ends).get(), Ran::kUnserved);
  EXPECT_EQ(work->polls, 0);
}

TEST(FunneledQueue, EndsAWaitForTheOwnerWhenTheFlagIsRaised) {
  FunneledQueue queue;
  Ends ends;
  ends.abort.raise({ErrorKind::kPeerLost, "gone"});
  EXPECT_EQ(run_elsewhere(queue, std::make_shared<FakeWork>(), ends).get(), Ran::kAborted);
}

TEST(FunneledQueue, AbandonsAWorkThatWasBegunAndIsWaitedForNoLonger) {
  FunneledQueue queue;
  Ends ends;
  const auto work = std::make_shared<FakeWork>([] { return false; });
  std::future<Ran> ran = run_elsewhere(queue, work, ends);
  ASSERT_TRUE(queue.serve([&] { return work->polls > 0; }, ends.wait).has_value());
  ends.abort.raise({ErrorKind::kPeerLost, "gone"});
  EXPECT_EQ(ran.get(), Ran::kAborted);
  EXPECT_FALSE(work->is_abandoned);  // not on that thread
  EXPECT_EQ(queue.run(std::make_shared<FakeWork>(), ends.wait), Ran::kOver);
  EXPECT_TRUE(work->is_abandoned);
}

TEST(FunneledQueue, EndsTheOwnersServiceWhenTheFlagIsRaisedOrNothingComes) {
  FunneledQueue queue;
  Ends ends;
  ends.clock.run_fast();
  const auto idle = queue.serve([] { return false; }, ends.wait);
  ASSERT_FALSE(idle.has_value());
  EXPECT_EQ(idle.error().kind, ErrorKind::kDeadlineExceeded);
  EXPECT_THAT(idle.error().message, HasSubstr("no exchange between ranks for 60 s"));
  ends.abort.raise({ErrorKind::kPeerLost, "gone"});
  const auto aborted = queue.serve([] { return false; }, ends.wait);
  ASSERT_FALSE(aborted.has_value());
  EXPECT_EQ(aborted.error().message, "gone");
}

}  // namespace
}  // namespace lockstep::transport::mpi
