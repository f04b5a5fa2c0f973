#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "launcher/process/exit_record.h"
#include "launcher/serve/replicas/engine_process.h"

namespace lockstep::serve {
namespace {

using ::testing::HasSubstr;
using End = process::ChildOutcome::End;

class EngineEnd : public ::testing::Test {
 protected:
  EngineEnd()
      : folder_(std::filesystem::path(::testing::TempDir()) /
                ::testing::UnitTest::GetInstance()->current_test_info()->name()) {
    std::filesystem::create_directories(folder_);
  }
  ~EngineEnd() override { std::filesystem::remove_all(folder_); }

  Result<void> end_of(const process::ChildOutcome& outcome, int ranks = 2) const {
    using launcher::WatchedChild;
    const auto known = ranks > 0 ? std::optional(ranks) : std::nullopt;
    const WatchedChild role = known ? WatchedChild::kRankZero : WatchedChild::kLauncher;
    return engine_end({outcome, judge_attempt(outcome, role, launcher::read_exit_records(folder_), known)});
  }
  Error error_of(const process::ChildOutcome& outcome, int ranks = 2) const { return end_of(outcome, ranks).error(); }
  void record(launcher::ExitRecord record) const { ASSERT_TRUE(write_exit_record(folder_, record).has_value()); }

  std::filesystem::path folder_;
};

TEST_F(EngineEnd, IsGoodAfterCodeZeroAndAfterAStop) {
  EXPECT_TRUE(end_of({.code = 0}, 2).has_value());
  EXPECT_TRUE(end_of({.end = End::kStop, .code = {}, .signal = 9}, 2).has_value());
}

TEST_F(EngineEnd, NamesTheRankThatTheOthersHaveLost) {
  record({.code = 5, .rank = 0, .host = "a", .lost_rank = 1, .message = "rank 1 was lost"});
  const Error error = error_of({.code = 5});
  EXPECT_EQ(error.kind, ErrorKind::kPeerLost);
  EXPECT_EQ(error.origin_rank, 1);
  EXPECT_THAT(error.message, HasSubstr("rank 1 was lost"));
}

TEST_F(EngineEnd, TakesAKilledRankZeroForALostRank) {
  const Error error = error_of({.code = {}, .signal = 9});
  EXPECT_EQ(error.kind, ErrorKind::kPeerLost);
  EXPECT_EQ(error.origin_rank, 0);
  EXPECT_THAT(error.message, HasSubstr("signal 9"));
}

TEST_F(EngineEnd, NamesTheLostRankAlsoWhenRankZeroHadToBeKilled) {
  record({.code = 5, .rank = 2, .host = "a", .lost_rank = 1, .message = "rank 1 was lost"});
  const Error error = error_of({.code = {}, .signal = 9}, /*ranks=*/3);
  EXPECT_EQ(error.kind, ErrorKind::kPeerLost);
  EXPECT_EQ(error.origin_rank, 1);
}

TEST_F(EngineEnd, BelievesTheRecordsAndNotTheCodeOfALauncher) {
  record({.code = 5, .rank = 0, .host = "a", .lost_rank = 3, .message = "rank 3 was lost"});
  const Error error = error_of({.code = 143}, /*ranks=*/0);
  EXPECT_EQ(error.kind, ErrorKind::kPeerLost);
  EXPECT_EQ(error.origin_rank, 3);
  EXPECT_EQ(error_of({.code = 0}, /*ranks=*/0).origin_rank, 3);
}

TEST_F(EngineEnd, HasTheEnginesOwnCodeWithoutRecords) {
  const Error error = error_of({.code = 2});
  EXPECT_EQ(error.kind, ErrorKind::kInvalidArgument);
  EXPECT_EQ(error.origin_rank, std::nullopt);
}

}  // namespace
}  // namespace lockstep::serve
