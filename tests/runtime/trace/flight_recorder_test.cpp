#include "runtime/trace/flight_recorder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <thread>

#include "runtime/core/abort_flag.h"
#include "runtime/trace/recorded_communicator.h"
#include "transport/loopback/loopback.h"

namespace lockstep::trace {
namespace {

using std::chrono::seconds;
using ::testing::StrEq;

TEST(FlightRecorder, KnowsWhatWasEnteredAndNotLeft) {
  ManualClock clock;
  FlightRecorder recorder(clock);
  recorder.begin_step(/*schedule=*/3, /*step=*/5);
  recorder.enter("model", "all_reduce", 11, 4096);
  clock.advance(seconds(2));
  const RecordedOperation inside = recorder.last();
  EXPECT_THAT(inside.operation, StrEq("all_reduce"));
  EXPECT_EQ(inside.sequence, 11u);
  EXPECT_EQ(inside.schedule, 3);
  EXPECT_EQ(inside.step, 5);
  EXPECT_FALSE(inside.left.has_value());
  recorder.leave();
  EXPECT_EQ(recorder.last().left.value() - inside.entered, seconds(2));
}

TEST(FlightRecorder, KeepsTheLastOperationsInOrder) {
  ManualClock clock;
  FlightRecorder recorder(clock);
  constexpr uint64_t kEntered = FlightRecorder::kCapacity + 10;
  for (uint64_t i = 1; i <= kEntered; ++i) {
    recorder.enter("model", "barrier", i, 0);
    recorder.leave();
  }
  const auto json = nlohmann::json::parse(recorder.to_json({}));
  EXPECT_EQ(json["entered"], kEntered);
  ASSERT_EQ(json["operations"].size(), FlightRecorder::kCapacity);
  EXPECT_EQ(json["operations"].front()["sequence"], 11);
  EXPECT_EQ(json["operations"].back()["sequence"], kEntered);
}

TEST(FlightRecorder, IsReadWhileItIsWritten) {
  const SteadyClock clock;
  FlightRecorder recorder(clock);
  constexpr uint64_t kLeast = 100'000, kReads = 20;
  std::atomic<bool> is_over = false;
  std::atomic<uint64_t> reads = 0;  // of an operation
  std::thread reader([&] {
    uint64_t seen = 0;
    while (!is_over) {
      const RecordedOperation last = recorder.last();
      EXPECT_GE(last.sequence, seen);
      EXPECT_EQ(last.bytes, 3 * last.sequence);  // of one operation, not of two
      seen = last.sequence;
      const auto json = nlohmann::json::parse(recorder.to_json({}));
      for (const auto& each : json["operations"]) {
        EXPECT_EQ(each["bytes"], 3 * each["sequence"].get<uint64_t>());
      }
      reads += seen > 0;
    }
  });
  const Deadline deadline(clock, seconds(20));
  for (uint64_t i = 1; i <= kLeast || (reads < kReads && !deadline.has_passed()); ++i) {
    recorder.enter("model", "barrier", i, 3 * i);
    recorder.leave();
  }
  is_over = true;
  reader.join();
  EXPECT_GE(reads, kReads);
}

TEST(FlightRecorder, TellsTimesInUnixTimeAndWhy) {
  ManualClock clock;
  FlightRecorder recorder(clock);
  recorder.enter("setup", "exchange", 1, 7);
  clock.advance(seconds(3));
  const auto json = nlohmann::json::parse(
      recorder.to_json({.rank = 2, .host = "b", .phase = "load", .why = "rank 1 was lost", .unix_time = 1000.0}));
  EXPECT_EQ(json["rank"], 2);
  EXPECT_EQ(json["phase"], "load");
  EXPECT_EQ(json["why"], "rank 1 was lost");
  EXPECT_DOUBLE_EQ(json["operations"][0]["entered"], 997.0);
  EXPECT_TRUE(json["operations"][0]["left"].is_null());
}

TEST(RecordedCommunicator, RecordsEachOperationAndLeavesAFailedOneOpen) {
  const SteadyClock clock;
  AbortFlag abort;
  FlightRecorder recorder(clock);
  const auto group = transport::loopback::make_group(1);
  RecordedCommunicator communicator(
      transport::loopback::make_communicator(group, 0, {.abort = &abort, .clock = &clock}), recorder);
  std::byte byte{};
  ASSERT_TRUE(communicator.barrier({}).has_value());
  ASSERT_TRUE(communicator.broadcast({&byte, 1}, 0, {}).has_value());
  EXPECT_THAT(recorder.last().operation, StrEq("broadcast"));
  EXPECT_EQ(recorder.last().bytes, 1u);
  EXPECT_EQ(recorder.last().sequence, communicator.last_operation().sequence);
  EXPECT_TRUE(recorder.last().left.has_value());
  abort.raise({ErrorKind::kPeerLost, "gone"});
  ASSERT_FALSE(communicator.barrier({}).has_value());
  EXPECT_FALSE(recorder.last().left.has_value());
}

}  // namespace
}  // namespace lockstep::trace
