#include "launcher/measure/bench/suite/goals.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <set>

#include "launcher/measure/bench/suite/selection.h"
#include "launcher/measure/bench/suite/shapes.h"
#include "launcher/measure/bench/suite/suite.h"

namespace lockstep::launcher::suite {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Setting two_cores() {
  return {.cores = 2, .ranks = 2, .threads = 1, .program = "lockstep", .large = "l.json", .small = "s.json"};
}

const Measurement& measurement(const Suite& suite, std::string_view id) {
  return *std::ranges::find(suite.measurements, id, &Measurement::id);
}

std::string words(const Suite& suite, std::string_view id, size_t side) {
  return fmt::format("{}", fmt::join(measurement(suite, id).sides.at(side).words, " "));
}

TEST(SuiteGoals, EveryRowNamesAMeasurementAndSidesThatItHas) {
  Setting setting = two_cores();
  setting.checkpoint = "checkpoint";
  setting.collectives = "collective_benchmark";
  setting.compare = {"python3", "compare.py"};
  const Suite suite = cpu_suite(setting);
  std::set<std::string> ids;
  for (const Goal& goal : suite.goals) {
    EXPECT_TRUE(ids.insert(goal.id).second) << goal.id << " is there twice";
    const auto found = std::ranges::find(suite.measurements, goal.measurement, &Measurement::id);
    ASSERT_NE(found, suite.measurements.end()) << goal.id;
    for (const auto& operands : {goal.figure.over, goal.figure.under}) {
      for (const Operand& operand : operands) {
        EXPECT_NE(std::ranges::find(found->sides, operand.side, &Side::name), found->sides.end())
            << goal.id << " wants " << operand.side;
      }
    }
    const bool ordered = goal.better == Better::kHigher ? goal.aim >= goal.floor : goal.aim <= goal.floor;
    EXPECT_TRUE(ordered) << goal.id << ": the aim is easier than the floor";
  }
}

TEST(SuiteGoals, SeveralRanksAreStartedByMpirunWithAllCores) {
  const Suite suite = cpu_suite(two_cores());
  EXPECT_THAT(
      words(suite, "ranks", 0),
      HasSubstr("mpirun -n 2 --bind-to none lockstep bench --random-weights --config l.json --tp 2 --threads 1"));
  EXPECT_THAT(words(suite, "ranks", 1), ::testing::StartsWith("lockstep bench"));
  EXPECT_THAT(words(suite, "ranks", 1), HasSubstr("--tp 1 --threads 2"));
  EXPECT_THAT(words(suite, "ranks", 2), HasSubstr("--tp 1 --threads 1"));
}

TEST(SuiteGoals, WithoutMpirunRanksAreThreads) {
  Setting setting = two_cores();
  setting.launch.threads = true;
  const Suite suite = cpu_suite(setting);
  EXPECT_THAT(words(suite, "ranks", 0), ::testing::StartsWith("lockstep bench"));
  EXPECT_THAT(words(suite, "ranks", 0), HasSubstr("--tp 2 --threads 1"));
  EXPECT_THAT(words(suite, "ranks", 0), HasSubstr("--launch threads"));
  EXPECT_TRUE(measurement(suite, "all-reduce").absence.has_value());
}

TEST(SuiteGoals, ALaunchTemplateGetsTheNumberOfRanks) {
  Setting setting = two_cores();
  setting.launch.words = {"srun", "-n", "{ranks}"};
  EXPECT_THAT(words(cpu_suite(setting), "ranks", 0), ::testing::StartsWith("srun -n 2 lockstep bench"));
}

TEST(SuiteGoals, SharesTheCoresOfAnyMachineBetweenRanks) {
  EXPECT_EQ(rank_shape(1, {}), (RankShape{1, 1}));
  EXPECT_EQ(rank_shape(2, {}), (RankShape{2, 1}));
  EXPECT_EQ(rank_shape(64, {}), (RankShape{2, 32}));
  EXPECT_EQ(rank_shape(64, 8), (RankShape{8, 8}));
  EXPECT_EQ(rank_shape(2, 3), (RankShape{3, 1}));
}

TEST(SuiteGoals, OneCoreHasNoRowsAboutRanks) {
  Setting setting = two_cores();
  setting.cores = setting.ranks = 1;
  const Suite suite = cpu_suite(setting);
  EXPECT_THAT(measurement(suite, "ranks").absence.value().reason, HasSubstr("found one core"));
  EXPECT_FALSE(measurement(suite, "decode").absence.has_value());
}

TEST(SuiteGoals, OnlyTakesRowsByNameOrByTheirBeginningWithWhatTheyNeed) {
  const Suite suite = cpu_suite(two_cores());
  const Suite few = only(suite, {"ranks", "batch-8"}).value();
  std::vector<std::string> goals, measurements;
  for (const Goal& goal : few.goals) goals.push_back(goal.id);
  for (const Measurement& each : few.measurements) measurements.push_back(each.id);
  EXPECT_THAT(goals, ElementsAre("ranks-decode", "ranks-prefill", "ranks-speed-up", "batch-8"));
  EXPECT_THAT(measurements, ElementsAre("ranks", "batch-8"));
  const auto unknown = only(suite, {"speed"});
  ASSERT_FALSE(unknown.has_value());
  EXPECT_EQ(unknown.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_THAT(unknown.error().message, HasSubstr("found speed, expected one of decode, ranks-decode"));
}

TEST(SuiteShapes, AreThoseOfTheExamples) {
  const auto read = [](const std::string& name) {
    std::ifstream file(std::string(LOCKSTEP_SHAPES_DIR) + "/" + name, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  EXPECT_EQ(llama_3_2_1b(), read("llama-3.2-1b.json"));
  EXPECT_EQ(smollm2_135m(), read("smollm2-135m.json"));
}

}  // namespace
}  // namespace lockstep::launcher::suite
