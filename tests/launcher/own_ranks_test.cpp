// Ranks of one process under the program's rules: sizes, exit records, faults on purpose.
#include "launcher/process/own_ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/group/rank_threads.h"
#include "engine/group/state.h"
#include "launcher/process/exit_record.h"
#include "tests/temporary_directory.h"

namespace lockstep::launcher {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Json = nlohmann::json;

class OwnRanksTest : public ::testing::Test {
 protected:
  OwnRanks ranks(int count, std::vector<std::string> faults = {}) const {
    return {.run = {.launch = Launch::kThreads,
                    .deadline_s = 15,
                    .exit_record = folder_.path(),
                    .faults = std::move(faults)},
            .ranks = count};
  }

  Json record_of(int rank) const {
    return Json::parse(std::ifstream(folder_.path() / ("rank-" + std::to_string(rank) + ".json")));
  }

  TemporaryDirectory folder_;
};

Result<void> do_nothing(Group&, const Log&) { return ok(); }

/// Every rank connects to the others.
Result<void> meet(Group& group, const Log&) {
  return group::on_each_rank(group::State::of(group), [](group::Member& member) { return member.all_succeeded(ok()); });
}

TEST_F(OwnRanksTest, AreAsManyThreadsAsAreAskedFor) {
  for (const int count : {1, 3}) {
    int size = 0, rank = -1;
    const auto ran = on_own_ranks(ranks(count), [&](Group& group, const Log&) -> Result<void> {
      size = group.size();
      rank = group.rank();
      return ok();
    });
    ASSERT_TRUE(ran.has_value()) << ran.error().message;
    EXPECT_EQ(size, count);
    EXPECT_EQ(rank, 0);
  }
}

TEST_F(OwnRanksTest, LeaveARecordEachOfAGoodEnd) {
  ASSERT_TRUE(on_own_ranks(ranks(2), meet).has_value());
  for (const int rank : {0, 1}) {
    const Json record = record_of(rank);
    EXPECT_EQ(record["code"], 0);
    EXPECT_EQ(record["rank"], rank);
    EXPECT_EQ(record["message"], "");
    EXPECT_TRUE(record["lost_rank"].is_null());
    EXPECT_TRUE(record["origin_rank"].is_null());
  }
}

TEST_F(OwnRanksTest, LeaveNoRecordOfAnEarlierRunWithMoreRanks) {
  ASSERT_TRUE(on_own_ranks(ranks(3), do_nothing).has_value());
  ASSERT_EQ(read_exit_records(folder_.path()).size(), 3u);
  size_t during = 3;
  const auto ran = on_own_ranks(ranks(2), [&](Group&, const Log&) -> Result<void> {
    during = read_exit_records(folder_.path()).size();
    return ok();
  });
  ASSERT_TRUE(ran.has_value()) << ran.error().message;
  EXPECT_EQ(during, 0u);
  EXPECT_EQ(read_exit_records(folder_.path()).size(), 2u);
}

TEST_F(OwnRanksTest, LeaveARecordOfTheErrorThatTheWorkEndsWith) {
  const Error error{ErrorKind::kResourceExhausted, "[test] too large"};
  const auto ran = on_own_ranks(ranks(2), [&](Group&, const Log&) -> Result<void> { return error; });
  ASSERT_FALSE(ran.has_value());
  EXPECT_EQ(ran.error().kind, ErrorKind::kResourceExhausted);
  EXPECT_THAT(ran.error().message, HasSubstr("[test] too large"));
  for (const int rank : {0, 1}) {
    EXPECT_EQ(record_of(rank)["code"], exit_code(ErrorKind::kResourceExhausted));
    EXPECT_THAT(record_of(rank)["message"].get<std::string>(), HasSubstr("too large"));
  }
}

TEST_F(OwnRanksTest, TurnExceptionsOfTheWorkIntoErrors) {
  const auto ran =
      on_own_ranks(ranks(1), [](Group&, const Log&) -> Result<void> { throw std::runtime_error("unexpected"); });
  ASSERT_FALSE(ran.has_value());
  EXPECT_EQ(ran.error().kind, ErrorKind::kInternal);
  EXPECT_THAT(ran.error().message, HasSubstr("unexpected"));
}

TEST_F(OwnRanksTest, FailInThePhaseThatAFaultNames) {
  const auto ran = on_own_ranks(ranks(1, {"rank=0,phase=plan,kind=fail"}), do_nothing);
  ASSERT_FALSE(ran.has_value());
  EXPECT_EQ(ran.error().kind, ErrorKind::kInternal);
  EXPECT_THAT(ran.error().message, HasSubstr("rank 0 failed in plan, as --fault asked"));
  EXPECT_EQ(record_of(0)["phase"], "plan");
}

TEST_F(OwnRanksTest, RefuseAFaultThatCannotBeReadBeforeTheyMeet) {
  const auto ran = on_own_ranks(ranks(1, {"rank=0,phase=lunch,kind=fail"}), do_nothing);
  ASSERT_FALSE(ran.has_value());
  EXPECT_EQ(ran.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_THAT(ran.error().message, HasSubstr("--fault"));
}

TEST_F(OwnRanksTest, WriteWhatTheyDidLastWhenTheyFail) {
  const TemporaryDirectory flights;
  OwnRanks own = ranks(2);
  own.run.flight_recorder = flights.path();
  ASSERT_TRUE(on_own_ranks(own, meet).has_value());
  EXPECT_TRUE(std::filesystem::is_empty(flights.path()));
  const auto fail = [](Group& group, const Log& log) -> Result<void> {
    LOCKSTEP_TRY_VOID(meet(group, log));
    return Error{ErrorKind::kInternal, "[test] failed"};
  };
  ASSERT_FALSE(on_own_ranks(own, fail).has_value());
  for (const int rank : {0, 1}) {
    const Json flight = Json::parse(std::ifstream(flights.path() / ("rank-" + std::to_string(rank) + ".json")));
    EXPECT_EQ(flight["rank"], rank);
    EXPECT_THAT(flight["why"].get<std::string>(), HasSubstr("[test] failed"));
    EXPECT_EQ(flight["operations"].back()["operation"], "exchange");
    EXPECT_EQ(record_of(rank)["operation"], "exchange");
    EXPECT_EQ(record_of(rank)["sequence"], flight["operations"].back()["sequence"]);
  }
}

TEST_F(OwnRanksTest, RefuseFoldersThatCannotTakeTheirFiles) {
  OwnRanks same = ranks(1);
  same.run.flight_recorder = folder_.path();
  const auto ran = on_own_ranks(same, do_nothing);
  ASSERT_FALSE(ran.has_value());
  EXPECT_EQ(ran.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_THAT(ran.error().message, AllOf(HasSubstr("--flight-recorder"), HasSubstr("--exit-record")));
  OwnRanks absent = ranks(1);
  absent.run.exit_record = folder_.path() / "absent";
  EXPECT_THAT(on_own_ranks(absent, do_nothing).error().message, HasSubstr("--exit-record"));
  absent.run.makes_exit_record = true;
  EXPECT_TRUE(on_own_ranks(absent, do_nothing).has_value());
  EXPECT_EQ(read_exit_records(*absent.run.exit_record).size(), 1u);
}

}  // namespace
}  // namespace lockstep::launcher
