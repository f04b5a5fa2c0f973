#include "launcher/process/rank_lifecycle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "launcher/process/exit_record.h"
#include "launcher/process/recorded_bootstrap.h"
#include "runtime/core/guard.h"
#include "tests/temporary_directory.h"

namespace lockstep::launcher {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using Json = nlohmann::json;

class RankLifecycleTest : public ::testing::Test {
 protected:
  Json record() const { return Json::parse(std::ifstream(records_.path() / "rank-3.json")); }
  bool is_recorded() const { return std::filesystem::exists(records_.path() / "rank-3.json"); }

  TemporaryDirectory records_;
  ManualClock clock_;
  RunOptions run_{.exit_record = records_.path()};
};

TEST_F(RankLifecycleTest, SettlesWithTheFirstError) {
  RankLifecycle rank(3, clock_, run_, Faults({}, 3));
  rank.enter_phase("load");
  EXPECT_FALSE(is_recorded());
  const Error first = rank.settle({ErrorKind::kNotFound, "first", 3});
  EXPECT_EQ(first, (Error{ErrorKind::kNotFound, "first", 3}));
  EXPECT_EQ(record()["code"], exit_code(ErrorKind::kNotFound));
  EXPECT_EQ(record()["phase"], "load");
  EXPECT_EQ(record()["origin_rank"], 3);
  EXPECT_EQ(rank.settle({ErrorKind::kInternal, "second"}), first);
  EXPECT_EQ(rank.settle_well().error(), first);
  EXPECT_EQ(record()["message"], "first");
}

TEST_F(RankLifecycleTest, SettlesWellOnce) {
  RankLifecycle rank(3, clock_, run_, Faults({}, 3));
  EXPECT_TRUE(rank.settle_well().has_value());
  EXPECT_EQ(record()["code"], 0);
  EXPECT_TRUE(rank.settle_well().has_value());
  rank.settle({ErrorKind::kInternal, "late"});
  EXPECT_EQ(record()["code"], 0);  // the end that was recorded holds
}

TEST_F(RankLifecycleTest, RemovesTheRecordThatAnEarlierRunHasLeftOfItsRankAlone) {
  for (const int rank : {2, 3, 4}) {
    ASSERT_TRUE(write_exit_record(records_.path(), {.code = 0, .rank = rank}).has_value());
  }
  const RankLifecycle rank(3, clock_, run_, Faults({}, 3));
  EXPECT_FALSE(is_recorded());  // as it is left by a kill
  const auto left = read_exit_records(records_.path());
  ASSERT_EQ(left.size(), 2u);
  EXPECT_EQ(left[0].rank, 2);  // of this run already
  EXPECT_EQ(left[1].rank, 4);
}

TEST_F(RankLifecycleTest, SaysWhatItWasDoingWhereItTellsOfAPeer) {
  RankLifecycle rank(3, clock_, run_, Faults({}, 3));
  rank.enter_phase("connect");
  rank.recorder().enter("setup", "exchange", 4, 10);
  EXPECT_EQ(rank.activity(), "connect, at exchange (operation 4)");
  const Error error = rank.settle({ErrorKind::kPeerLost, "rank 1 is lost", 1});
  EXPECT_THAT(error.message, AllOf(StartsWith("rank 1 is lost (rank 3 on host "),
                                   EndsWith(" was in connect, at exchange (operation 4))")));
  EXPECT_EQ(record()["lost_rank"], 1);
  EXPECT_EQ(record()["operation"], "exchange");
  EXPECT_EQ(record()["sequence"], 4);
}

TEST_F(RankLifecycleTest, TellsThePhaseAloneBeforeItsFirstOperation) {
  RankLifecycle rank(3, clock_, run_, Faults({}, 3));
  EXPECT_EQ(rank.activity(), "start");
  rank.enter_phase("load");
  EXPECT_EQ(rank.activity(), "load");
  rank.recorder().enter("setup", "barrier", 1, 0);
  rank.recorder().leave();
  EXPECT_EQ(rank.activity(), "load, after barrier (operation 1)");
}

TEST_F(RankLifecycleTest, CancelsTheStepsThatRun) {
  RankLifecycle rank(3, clock_, run_, Faults({}, 3));
  EXPECT_FALSE(rank.cancel());
  EXPECT_FALSE(rank.is_running() || rank.has_run());
  int cancelled = 0;
  rank.set_running({.status = [] { return actors::ExecutorStatus{.phase = actors::Phase::kDecode}; },
                    .cancel = [&] { ++cancelled; }});
  EXPECT_THAT(rank.activity(), HasSubstr("decode"));
  EXPECT_TRUE(rank.cancel());
  EXPECT_EQ(cancelled, 1);
  rank.set_running({});
  EXPECT_FALSE(rank.cancel());
  EXPECT_FALSE(rank.is_running());
  EXPECT_TRUE(rank.has_run());  // a signal during its last report is not one before its start
}

TEST_F(RankLifecycleTest, StrikesItsFaultsInPhasesAndBeforeSteps) {
  RankLifecycle rank(
      3, clock_, run_,
      Faults({{3, "load", FaultKind::kFail, 0}, {3, "decode", FaultKind::kFail, 1}, {2, "plan", FaultKind::kFail, 0}},
             3));
  rank.enter_phase("plan");
  EXPECT_THROW(rank.enter_phase("load"), ThrownError);
  rank.begin_step({.phase = actors::Phase::kDecode, .decode_steps = 0});
  EXPECT_THROW(rank.begin_step({.phase = actors::Phase::kDecode, .decode_steps = 1}), ThrownError);
}

TEST_F(RankLifecycleTest, WritesNothingWithoutFolders) {
  const RunOptions none;
  RankLifecycle rank(3, clock_, none, Faults({}, 3));
  rank.settle({ErrorKind::kInternal, "first"});
  EXPECT_FALSE(is_recorded());
}

TEST_F(RankLifecycleTest, WritesTheFlightRecorderWhenItFails) {
  const TemporaryDirectory flights;
  run_.flight_recorder = flights.path();
  RankLifecycle rank(3, clock_, run_, Faults({}, 3));
  rank.begin_step({.phase = actors::Phase::kDecode, .schedule = 7, .step = 2});
  rank.recorder().enter("model", "all_reduce", 9, 64);
  rank.settle({ErrorKind::kInternal, "broken"});
  const Json flight = Json::parse(std::ifstream(flights.path() / "rank-3.json"));
  EXPECT_EQ(flight["why"], "broken");
  EXPECT_EQ(flight["operations"][0]["operation"], "all_reduce");
  EXPECT_EQ(flight["operations"][0]["schedule"], 7);
  EXPECT_EQ(flight["operations"][0]["step"], 2);
}

TEST(RecordedBootstrap, NotesEachOperationUnderItsNumber) {
  const ManualClock clock;
  trace::FlightRecorder recorder(clock);
  uint64_t exchanges = 6;  // of an earlier bootstrap of the rank
  RecordedBootstrap bootstrap(transport::make_single_bootstrap(), recorder, exchanges);
  EXPECT_EQ(bootstrap.size(), 1);
  EXPECT_EQ(bootstrap.rank(), 0);
  EXPECT_EQ(bootstrap.name(), "single");
  EXPECT_EQ(bootstrap.exchange("four").value(), std::vector<std::string>{"four"});
  trace::RecordedOperation last = recorder.last();
  EXPECT_STREQ(last.group, "setup");
  EXPECT_STREQ(last.operation, "exchange");
  EXPECT_EQ(last.sequence, 7u);
  EXPECT_EQ(last.bytes, 4u);
  EXPECT_TRUE(last.left.has_value());
  ASSERT_TRUE(bootstrap.barrier().has_value());
  EXPECT_STREQ(recorder.last().operation, "barrier");
  ASSERT_TRUE(bootstrap.places().has_value());
  EXPECT_STREQ(recorder.last().operation, "places");
  ASSERT_TRUE(bootstrap.finish().has_value());
  EXPECT_STREQ(recorder.last().operation, "finish");
  EXPECT_EQ(exchanges, 10u);
}

/// Ends no exchange well.
class FailingBootstrap final : public transport::Bootstrap {
 public:
  int rank() const override { return 0; }
  int size() const override { return 2; }
  std::string name() const override { return "failing"; }
  Result<std::vector<std::string>> exchange(std::string_view) override { return lost(); }
  Result<void> barrier() override { return lost(); }
  Result<std::vector<device::RankPlace>> places() override { return lost(); }
  Result<void> finish() override { return lost(); }

 private:
  static Error lost() { return {ErrorKind::kPeerLost, "rank 1 is lost", 1}; }
};

TEST(RecordedBootstrap, StaysInsideAnOperationThatFails) {
  const ManualClock clock;
  trace::FlightRecorder recorder(clock);
  uint64_t exchanges = 0;
  RecordedBootstrap bootstrap(std::make_unique<FailingBootstrap>(), recorder, exchanges);
  EXPECT_EQ(bootstrap.exchange("four").error().kind, ErrorKind::kPeerLost);
  EXPECT_FALSE(recorder.last().left.has_value());
}

}  // namespace
}  // namespace lockstep::launcher
