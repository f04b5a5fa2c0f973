#include "launcher/measure/bench/suite/measure.h"
#include "launcher/process/own_environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "launcher/measure/bench/suite/file_cache.h"
#include "tests/temporary_directory.h"

namespace lockstep::launcher::suite {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr auto kOk = ChildRecord::Status::kOk;

/// A folder that goes with the test, and programs that note in it that they ran.
class SuiteMeasure : public ::testing::Test {
 protected:
  /// Its command behind the note; "$0" is the file for the result.
  Side side(const std::string& name, const std::string& script) const {
    // The suite adds "--json FILE": sh takes the first for $0 and the second for $1.
    return {.name = name,
            .words = {"/bin/sh", "-c", "echo " + name + " >> " + (folder_ / "log").string() + "; " + script}};
  }
  std::string log() const {
    std::ifstream file(folder_ / "log");
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }
  Result<std::vector<ChildRecord>> run(const Measurement& measurement) {
    return measure(measurement, {.folder = folder_, .environment = own_environment(), .stop = &stop_},
                   [this](const std::string& line) { lines_.push_back(line); });
  }

  const TemporaryDirectory directory_;
  const fs::path folder_ = directory_.path();
  process::ChildStop stop_;
  std::vector<std::string> lines_;
};

TEST_F(SuiteMeasure, SidesTakeTurns) {
  const std::string good = "echo '{\"speed\": 3}' > $1";
  const Measurement measurement{.id = "m", .sides = {side("a", good), side("b", good)}, .rounds = 2};
  EXPECT_THAT(turns_of(measurement), ElementsAre(Turn{0, 0}, Turn{0, 1}, Turn{1, 0}, Turn{1, 1}));
  const auto records = run(measurement).value();
  EXPECT_EQ(log(), "a\nb\na\nb\n");
  ASSERT_EQ(records.size(), 4u);
  EXPECT_EQ(records[3].round, 1);
  EXPECT_EQ(records[3].status, kOk);
  EXPECT_THAT(records[3].document, HasSubstr("\"speed\":3"));
  EXPECT_THAT(records[3].document, HasSubstr("\"suite\":{\"seconds\":"));
  EXPECT_EQ(lines_.size(), 4u);
}

TEST_F(SuiteMeasure, AProgramThatFailsEndsItsMeasurementWithItsReason) {
  const Measurement measurement{
      .id = "m", .sides = {side("a", "echo 'lockstep: [x] broke' >&2; exit 5"), side("b", "true")}, .rounds = 3};
  const auto records = run(measurement).value();
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].status, ChildRecord::Status::kFailed);
  EXPECT_EQ(records[0].code, 5);
  EXPECT_THAT(records[0].reason, HasSubstr("[x] broke"));
}

TEST_F(SuiteMeasure, AProgramThatDoesNotKnowAnOptionRefuses) {
  const auto records = run({.id = "m", .sides = {side("a", "exit 2")}}).value();
  EXPECT_EQ(records[0].status, ChildRecord::Status::kRefused);
}

TEST_F(SuiteMeasure, AProgramThatHangsIsEnded) {
  const auto records = run({.id = "m", .sides = {side("a", "exec sleep 600")}, .deadline_s = 0.2}).value();
  EXPECT_EQ(records[0].status, ChildRecord::Status::kFailed);
  EXPECT_THAT(records[0].reason, HasSubstr("deadline"));
}

TEST_F(SuiteMeasure, AProgramThatIsNotThereOrWritesNothingFails) {
  const auto absent = run({.id = "m", .sides = {{.name = "a", .words = {"/there/is/no/such/program"}}}}).value();
  EXPECT_EQ(absent[0].status, ChildRecord::Status::kFailed);
  const auto silent = run({.id = "m", .sides = {side("a", "true")}}).value();
  EXPECT_THAT(silent[0].reason, HasSubstr("wrote no result"));
  EXPECT_EQ(run({.id = "m", .sides = {side("a", "echo '[1' > $1")}}).value()[0].status, ChildRecord::Status::kFailed);
}

TEST_F(SuiteMeasure, AnInterruptionEndsEverything) {
  stop_.raise();
  const auto ended = run({.id = "m", .sides = {side("a", "exec sleep 600")}});
  ASSERT_FALSE(ended.has_value());
  EXPECT_EQ(ended.error().kind, ErrorKind::kCancelled);
}

TEST_F(SuiteMeasure, WhatIsAbsentIsNotStarted) {
  const auto records = run({.id = "m", .sides = {side("a", "true")}, .absence = Absence{.reason = "no"}}).value();
  EXPECT_TRUE(records.empty());
  EXPECT_EQ(log(), "");
}

TEST_F(SuiteMeasure, FilesAreReadBeforeAProgramThatWantsThemWarm) {
  fs::create_directory(folder_ / "checkpoint");
  std::ofstream(folder_ / "checkpoint" / "pytorch_model.bin") << std::string(70'000, 'x');
  EXPECT_EQ(read_files(folder_ / "checkpoint", 3).value().bytes, 70'000);
  std::ofstream(folder_ / "checkpoint" / "model.safetensors") << std::string(100'000, 'x');
  std::ofstream(folder_ / "checkpoint" / "model.gguf") << std::string(10, 'x');  // the same weights for others
  EXPECT_EQ(read_files(folder_ / "checkpoint", 3).value().bytes, 100'000);
  EXPECT_EQ(read_files(folder_ / "no such folder", 1).error().kind, ErrorKind::kNotFound);
  Measurement measurement{.id = "m", .sides = {side("warm", "echo '{}' > $1")}, .files = folder_ / "checkpoint"};
  measurement.sides[0].files = Files::kWarm;
  EXPECT_THAT(run(measurement).value()[0].document, HasSubstr("\"files\":{\"bytes\":100000,\"read_s\":"));
}

}  // namespace
}  // namespace lockstep::launcher::suite
