#include "launcher/process/attempt.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/model/tiny_models.h"

namespace lockstep::launcher {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr auto kLauncher = WatchedChild::kLauncher;
constexpr auto kRankZero = WatchedChild::kRankZero;

process::ChildOutcome ended(int code, std::string errors = "") { return {.code = code, .errors = std::move(errors)}; }
process::ChildOutcome killed(int signal) { return {.code = {}, .signal = signal}; }
ExitRecord record(int rank, int code, std::optional<int> lost = {}) {
  return {.code = code, .rank = rank, .lost_rank = lost, .message = "of rank " + std::to_string(rank)};
}

TEST(JudgeAttempt, KnowsAJobThatIsDone) { EXPECT_EQ(judge_attempt(ended(0), kLauncher, {record(0, 0)}, 1).code, 0); }

TEST(JudgeAttempt, BelievesTheRanksBeforeTheLauncher) {
  const AttemptEnd lost = judge_attempt(ended(137), kLauncher, {record(0, 5, 2), record(1, 5, 2)}, 3);
  EXPECT_EQ(lost.code, 5);
  EXPECT_THAT(lost.lost_ranks, ElementsAre(2));
  EXPECT_EQ(lost.message, "of rank 0");
  EXPECT_EQ(judge_attempt(ended(143), kLauncher, {record(0, 2), record(1, 2)}, 2).code, 2);
  EXPECT_EQ(judge_attempt(ended(1), kLauncher, {record(0, 6)}, 2).code, 6);
  // A rank's own fault is why the others lost it.
  EXPECT_EQ(judge_attempt(ended(1), kLauncher, {record(0, 5, 1), record(1, 7)}, 2).code, 7);
}

TEST(JudgeAttempt, BelievesCodeZeroOfALauncherOnlyWithTheRecordOfRankZero) {
  const AttemptEnd lost = judge_attempt(ended(0), kLauncher, {record(1, 5, 0), record(2, 5, 0), record(3, 5, 0)}, 4);
  EXPECT_EQ(lost.code, 5);
  EXPECT_THAT(lost.lost_ranks, ElementsAre(0));
  EXPECT_EQ(lost.message, "of rank 1");
  EXPECT_EQ(judge_attempt(ended(0), kLauncher, {record(0, 3), record(1, 0)}, 2).code, 3);
  // Another replica was lost, and rank 0 has finished the job with the others.
  EXPECT_EQ(judge_attempt(ended(0), kLauncher, {record(0, 0), record(3, 5, 2)}, 4).code, 0);
  const AttemptEnd silent = judge_attempt(ended(0), kLauncher, {record(1, 0)}, 2);
  EXPECT_EQ(silent.code, 5);
  EXPECT_THAT(silent.lost_ranks, ElementsAre(0));
  EXPECT_EQ(silent.message, "exit code 0 of the launcher, without a record of rank 0's success");
  EXPECT_EQ(judge_attempt(ended(0), kLauncher, {record(1, 0)}, /*ranks=*/{}).code, 5);
  EXPECT_EQ(judge_attempt(ended(0), kLauncher, {}, 2).code, 0);
}

TEST(JudgeAttempt, TellsALossFromAnInterruption) {
  EXPECT_EQ(judge_attempt(ended(130), kLauncher, {record(0, 130), record(1, 130)}, 2).code, 130);
  const AttemptEnd lost = judge_attempt(ended(143), kLauncher, {record(0, 130)}, 2);
  EXPECT_EQ(lost.code, 5);
  EXPECT_THAT(lost.lost_ranks, ElementsAre(1));
}

TEST(JudgeAttempt, KnowsThatEverythingWasKilled) {
  const AttemptEnd end = judge_attempt(killed(9), kLauncher, {}, 2);
  EXPECT_EQ(end.code, 137);
  EXPECT_TRUE(end.started);
  EXPECT_THAT(end.lost_ranks, IsEmpty());
  EXPECT_TRUE(judge_attempt(ended(137), kLauncher, {}, 2).started);
}

TEST(JudgeAttempt, TakesAKilledRankZeroForALostRank) {
  EXPECT_THAT(judge_attempt(killed(9), kRankZero, {}, 2).lost_ranks, ElementsAre(0));
  const AttemptEnd reported = judge_attempt(killed(9), kRankZero, {record(1, 5, 0)}, 2);
  EXPECT_EQ(reported.code, 5);
  EXPECT_THAT(reported.lost_ranks, ElementsAre(0));
  // It was ended because it did not react to the loss of another.
  EXPECT_THAT(judge_attempt(killed(9), kRankZero, {record(2, 5, 1)}, 3).lost_ranks, ElementsAre(1));
  EXPECT_TRUE(judge_attempt(ended(2), kRankZero, {}, 2).started);
}

TEST(JudgeAttempt, NamesTheCauseOfAnEnd) {
  const auto cause = [](int code, bool started = true) { return cause_of({.code = code, .started = started}); };
  EXPECT_EQ(cause(0), EndCause::kDone);
  EXPECT_EQ(cause(130), EndCause::kInterrupted);
  for (const int code : {5, 6, 9, 134, 137, 143}) EXPECT_EQ(cause(code), EndCause::kLost) << code;
  for (const int code : {1, 2, 3, 4, 7}) EXPECT_EQ(cause(code), EndCause::kOwn) << code;
  EXPECT_EQ(cause(4, /*started=*/false), EndCause::kNotStarted);
}

TEST(JudgeAttempt, KnowsALauncherThatRefused) {
  const AttemptEnd slots =
      judge_attempt(ended(1, "There are not enough slots available in the system"), kLauncher, {}, 9);
  EXPECT_FALSE(slots.started);
  EXPECT_TRUE(slots.lacks_slots);
  EXPECT_FALSE(judge_attempt(ended(1, "mpirun was unable to find lockstep"), kLauncher, {}, 2).lacks_slots);
}

TEST(JudgeAttempt, KnowsAKilledRankByTheWordsOfALauncherThatEndedTheOthers) {
  const AttemptEnd end =
      judge_attempt(ended(9, "YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Killed (signal 9)"), kLauncher, {}, 2);
  EXPECT_TRUE(end.started);
  EXPECT_EQ(end.code, 5);
  EXPECT_EQ(cause_of(end), EndCause::kLost);
}

TEST(ExitRecords, AreReadAndRemoved) {
  const model::TinyModel folder("{}");
  ASSERT_TRUE(write_exit_record(folder.path(), record(1, 5, 0)).has_value());
  ASSERT_TRUE(write_exit_record(folder.path(), record(0, 6)).has_value());
  folder.write("rank-5.json", R"({"code": 4294967301, "rank": 5})");
  folder.write("rank-4.json", R"({"code": 5, "rank": -4})");
  folder.write("rank-2.json", "{\"code\": ");
  folder.write("rank-3.json", "[]");
  const auto records = read_exit_records(folder.path());
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0].code, 6);
  EXPECT_EQ(records[1].lost_rank, 0);
  EXPECT_EQ(records[1].message, "of rank 1");
  folder.write("rank-1x.json", "{}");
  remove_exit_records(folder.path(), /*first_rank=*/1);
  EXPECT_EQ(read_exit_records(folder.path()).size(), 1u);
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "rank-5.json"));
  remove_exit_records(folder.path());
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "rank-1x.json"));
  EXPECT_THAT(read_exit_records(folder.path()), IsEmpty());
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "config.json"));
}

}  // namespace
}  // namespace lockstep::launcher
