#include "launcher/rows/row_recorder.h"

#include <gtest/gtest.h>

#include <future>

namespace lockstep::launcher {
namespace {

/// Keeps rows, or fails from the `good`-th write on; a write waits until it is let through.
class SlowResults final : public RowResults {
 public:
  explicit SlowResults(int good = 1000) : good_(good) {}

  uint64_t done() const override { return rows.size(); }
  bool is_done(uint64_t) const override { return false; }
  Result<void> append(std::span<const journal::RowResult> added) override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return open_; });
    if (writes++ >= good_) return Error{ErrorKind::kUnavailable, "disk full"};
    for (const auto& row : added) rows.push_back(row.row);
    return ok();
  }
  Result<journal::RowResult> read(uint64_t) const override { return Error{}; }

  void open() {
    std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }

  std::vector<uint64_t> rows;
  int writes = 0;

 private:
  int good_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
};

journal::RowResult row(uint64_t index) { return {.row = index, .answers = {}, .error = {}}; }

TEST(RowRecorder, WritesRowsTogetherThatFinishWhileAWriteIsUnderWay) {
  SlowResults results;
  RowRecorder recorder(
      results, [](const Error&) {}, [](uint64_t) {});
  for (uint64_t i = 0; i < 50; ++i) {
    ASSERT_TRUE(recorder.wait_for_room(50));
    recorder.put(row(i));
  }
  results.open();
  ASSERT_TRUE(recorder.finish().has_value());
  EXPECT_EQ(results.rows.size(), 50u);
  EXPECT_LE(results.writes, 2);  // those that were there at first, and the rest
}

TEST(RowRecorder, GivesRoomOnlyWhenRowsAreRecorded) {
  SlowResults results;
  RowRecorder recorder(
      results, [](const Error&) {}, [](uint64_t) {});
  ASSERT_TRUE(recorder.wait_for_room(2));
  ASSERT_TRUE(recorder.wait_for_room(2));
  auto third = std::async(std::launch::async, [&] { return recorder.wait_for_room(2); });
  recorder.put(row(0));
  EXPECT_EQ(third.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  EXPECT_FALSE(recorder.wait_for_room(2, SteadyClock().now()));
  results.open();
  EXPECT_TRUE(third.get());
  auto fourth = std::async(std::launch::async, [&] { return recorder.wait_for_room(2); });
  recorder.release();
  EXPECT_TRUE(fourth.get());
  recorder.stop();
  EXPECT_FALSE(recorder.wait_for_room(2));
}

TEST(RowRecorder, SaysOnceThatARowCannotBeRecordedAndTakesNoMore) {
  SlowResults results(1);
  results.open();
  int failures = 0;
  std::promise<void> failed;
  RowRecorder recorder(
      results,
      [&](const Error&) {
        ++failures;
        failed.set_value();
      },
      [](uint64_t) {});
  ASSERT_TRUE(recorder.wait_for_room(1));
  recorder.put(row(0));
  ASSERT_TRUE(recorder.wait_for_room(1));
  recorder.put(row(1));
  failed.get_future().wait();
  recorder.put(row(2));
  EXPECT_FALSE(recorder.wait_for_room(100));
  EXPECT_EQ(recorder.finish().error().message, "disk full");
  EXPECT_EQ(failures, 1);
  EXPECT_EQ(results.rows, std::vector<uint64_t>{0});
}

}  // namespace
}  // namespace lockstep::launcher
