#include "launcher/serve/http/event_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <stdexcept>
#include <thread>

namespace lockstep::serve {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(EventLoop, CallsInTheOrderOfPosts) {
  const auto loop = make_loop();
  std::vector<int> called;
  for (int i = 0; i < 3; ++i) loop->post([&called, i] { called.push_back(i); });
  loop->post([&] { loop->stop(); });
  loop->run();
  EXPECT_THAT(called, ElementsAre(0, 1, 2));
}

TEST(EventLoop, CallsTimersInTheOrderOfTheirTimesAndNotTheDestroyedOnes) {
  const auto loop = make_loop();
  std::vector<int> called;
  const auto late = loop->after(20ms, [&] { loop->stop(); });
  const auto second = loop->after(10ms, [&] { called.push_back(2); });
  auto destroyed = loop->after(5ms, [&] { called.push_back(0); });
  const auto first = loop->after(1ms, [&] {
    called.push_back(1);
    destroyed.reset();
  });
  loop->run();
  EXPECT_THAT(called, ElementsAre(1, 2));
}

TEST(EventLoop, DoesNotCallATimerThatIsDestroyedAfterItBecameDue) {
  const auto loop = make_loop();
  bool was_called = false;
  std::unique_ptr<Timer> second;
  const auto first = loop->after(0ms, [&] {
    second.reset();
    loop->post([&] { loop->stop(); });
  });
  second = loop->after(0ms, [&] { was_called = true; });
  loop->run();
  EXPECT_FALSE(was_called);
}

TEST(EventLoop, LetsATimerDestroyItself) {
  const auto loop = make_loop();
  std::unique_ptr<Timer> timer;
  const auto captured = std::make_shared<int>(7);
  int seen = 0;
  timer = loop->after(0ms, [&, captured] {
    timer.reset();
    seen = *captured;
    loop->stop();
  });
  loop->run();
  EXPECT_EQ(seen, 7);
}

TEST(EventLoop, ComputesInOrderOnAnotherThreadAndEndsOnItsOwn) {
  for (const ComputeLane lane : {ComputeLane::kShort, ComputeLane::kLong}) {
    const auto loop = make_loop();
    const auto own = std::this_thread::get_id();
    std::vector<int> computed;
    std::vector<int> done;
    for (int i = 0; i < 10; ++i) {
      loop->compute(
          lane,
          [&, i] {
            EXPECT_NE(std::this_thread::get_id(), own);
            computed.push_back(i);
          },
          [&, i] {
            EXPECT_EQ(std::this_thread::get_id(), own);
            done.push_back(i);
            if (i == 9) loop->stop();
          });
    }
    loop->run();
    EXPECT_THAT(computed, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
    EXPECT_EQ(done, computed);
  }
}

TEST(EventLoop, ComputesShortWorkWhileLongWorkRuns) {
  const auto loop = make_loop();
  std::promise<void> short_is_done;
  auto waited = std::future_status::timeout;
  loop->compute(
      ComputeLane::kLong, [&] { waited = short_is_done.get_future().wait_for(20s); }, [&] { loop->stop(); });
  loop->compute(
      ComputeLane::kShort, [] {}, [&] { short_is_done.set_value(); });
  loop->run();
  EXPECT_EQ(waited, std::future_status::ready);
}

TEST(EventLoop, ComputesNothingAfterItsEnd) {
  const auto loop = make_loop();
  std::atomic<bool> has_ended = false;
  std::atomic<int> late = 0;
  for (int i = 0; i < 1000; ++i) {
    loop->compute(
        i % 2 == 0 ? ComputeLane::kShort : ComputeLane::kLong,
        [&, i] {
          if (i == 1) loop->stop();
          std::this_thread::yield();
          if (has_ended) ++late;  // what it uses is gone
        },
        [] {});
  }
  loop->run();
  has_ended = true;
  EXPECT_EQ(late, 0);
}

TEST(EventLoop, SurvivesFunctionsThatThrow) {
  std::vector<std::string> lines;
  const Log log([&](LogLevel, std::string_view line) { lines.emplace_back(line); });
  const auto loop = make_loop(&log);
  loop->post([] { throw std::runtime_error("no luck"); });
  loop->post([&] { loop->stop(); });
  loop->run();
  EXPECT_THAT(lines, ElementsAre(HasSubstr("no luck")));
}

TEST(EventLoop, ThatWasStoppedBeforeDoesNotRun) {
  const auto loop = make_loop();
  bool was_called = false;
  loop->post([&] { was_called = true; });
  loop->stop();
  loop->run();
  EXPECT_FALSE(was_called);
}

}  // namespace
}  // namespace lockstep::serve
