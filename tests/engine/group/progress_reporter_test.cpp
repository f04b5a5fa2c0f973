#include "engine/group/progress_reporter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace lockstep::group {
namespace {

using ::testing::SizeIs;
using enum Progress::Work;

/// Keeps what was reported, and waits for it.
class Listener {
 public:
  std::function<void(const Progress&)> function() {
    return [this](const Progress& progress) {
      std::lock_guard lock(mutex_);
      heard_.push_back(progress);
      changed_.notify_all();
    };
  }

  /// All reports, once `work` is over for the `times`-th time.
  std::vector<Progress> until_over(Progress::Work work, int times = 1) {
    std::unique_lock lock(mutex_);
    const auto is_over = [&] {
      return std::ranges::count_if(heard_, [&](const Progress& p) { return p.work == work && p.is_over(); }) >= times;
    };
    EXPECT_TRUE(changed_.wait_for(lock, std::chrono::seconds(20), is_over));
    return heard_;
  }

  /// Waits for a report that is `wanted`.
  void wait_for(const Progress& wanted) {
    std::unique_lock lock(mutex_);
    const auto is_there = [&] { return std::ranges::find(heard_, wanted) != heard_.end(); };
    EXPECT_TRUE(changed_.wait_for(lock, std::chrono::seconds(20), is_there));
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Progress> heard_;
};

constexpr Duration kOften = std::chrono::milliseconds(1);

TEST(ProgressReporter, ReportsWhatIsDoneUntilItIsOver) {
  Listener listener;
  ProgressReporter reporter(listener.function(), kOften);
  reporter.expect(kLoading, 10);
  listener.wait_for({kLoading, 0, 10});
  reporter.add(kLoading, 4);
  listener.wait_for({kLoading, 4, 10});
  reporter.add(kLoading, 6);
  EXPECT_EQ(listener.until_over(kLoading).back(), (Progress{kLoading, 10, 10}));
}

TEST(ProgressReporter, BeginsAgainWithWorkThatComesLater) {
  Listener listener;
  ProgressReporter reporter(listener.function(), kOften);
  reporter.expect(kPrefill, 3);
  reporter.add(kPrefill, 3);
  listener.until_over(kPrefill);
  reporter.add(kPrefill, 5);  // more than was expected: not of the next work
  reporter.expect(kPrefill, 8);
  listener.wait_for({kPrefill, 0, 8});
  reporter.add(kPrefill, 9);
  EXPECT_EQ(listener.until_over(kPrefill, /*times=*/2).back(), (Progress{kPrefill, 8, 8}));
}

TEST(ProgressReporter, EndsWorkThatWillNotBeDone) {
  Listener listener;
  ProgressReporter reporter(listener.function(), kOften);
  reporter.expect(kPrefill, 100);
  listener.wait_for({kPrefill, 0, 100});
  reporter.finish(kPrefill);
  EXPECT_EQ(listener.until_over(kPrefill).back(), (Progress{kPrefill, 100, 100}));
}

TEST(ProgressReporter, SaysNothingWithoutWork) {
  std::vector<Progress> heard;
  {
    const ProgressReporter reporter([&](const Progress& progress) { heard.push_back(progress); }, kOften);
  }
  EXPECT_THAT(heard, SizeIs(0));
}

}  // namespace
}  // namespace lockstep::group
