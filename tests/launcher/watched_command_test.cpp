#include "launcher/batch/watched_command.h"

#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iterator>
#include <sstream>

#include "launcher/cli/command_line.h"

namespace lockstep::launcher {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

constexpr const char* kJob = " bin/lockstep generate --model M --prompts-file F --journal J";

Result<WatchedCommand> parse(const std::string& line) {
  std::istringstream stream(line);
  return parse_watched_command({std::istream_iterator<std::string>(stream), {}}, parse_generate_command);
}

std::string line_of(const std::vector<std::string>& words) { return fmt::format("{}", fmt::join(words, " ")); }

TEST(WatchedCommand, FindsTheRanksOfEveryLauncher) {
  for (const std::string launcher : {"mpirun -n 4", "mpirun --bind-to core -np 4", "mpiexec --np 4", "srun --ntasks=4",
                                     "srun --ntasks 4", "srun -n4"}) {
    const auto command = parse(launcher + kJob + " --tp 4");
    ASSERT_TRUE(command.has_value()) << launcher << command.error().message;
    EXPECT_EQ(command.value().ranks, 4) << launcher;
    const std::string fewer = line_of(with_ranks(command.value(), 3, parse_generate_command).value().words);
    EXPECT_EQ(fewer.find('4'), std::string::npos) << fewer;
    EXPECT_THAT(fewer, EndsWith("--tp 3"));
    EXPECT_EQ(parse(fewer).value().ranks, 3);
  }
}

TEST(WatchedCommand, KnowsCommandsWithoutALauncher) {
  EXPECT_EQ(parse(kJob).value().ranks, 1);
  const auto threads = parse(std::string(kJob) + " --launch threads --tp=3").value();
  EXPECT_EQ(threads.ranks, 3);
  EXPECT_THAT(line_of(with_ranks(threads, 2, parse_generate_command).value().words), EndsWith("--tp=2"));
}

TEST(WatchedCommand, LowersTheAliasOfTheDegree) {
  for (const std::string words : {"--tp-degree 4", "--tp-degree=4"}) {
    const auto command = parse("mpirun -n 4" + std::string(kJob) + " " + words).value();
    const std::string fewer = line_of(with_ranks(command, 3, parse_generate_command).value().words);
    EXPECT_EQ(fewer.find('4'), std::string::npos) << fewer;
    EXPECT_EQ(parse(fewer).value().generate.model.ranks, 3);
  }
}

TEST(WatchedCommand, GivesUpAReplicaBeforeItLowersTheDegree) {
  const auto three = parse("mpirun -n 6" + std::string(kJob) + " --tp 2").value();
  EXPECT_EQ(ranks_without_a_replica(three), 4);
  const auto two = with_ranks(three, 4, parse_generate_command).value();
  EXPECT_EQ(two.ranks, 4);
  EXPECT_EQ(two.generate.model.ranks, 2);
  const auto one = with_ranks(two, ranks_without_a_replica(two).value(), parse_generate_command).value();
  EXPECT_EQ(ranks_without_a_replica(one), std::nullopt);
  EXPECT_THAT(line_of(with_ranks(one, 1, parse_generate_command).value().words), EndsWith("--tp 1"));
  EXPECT_EQ(ranks_without_a_replica(parse("mpirun -n 4" + std::string(kJob)).value()), std::nullopt);
}

TEST(WatchedCommand, CannotLowerRanksThatAreNotSaid) {
  const auto command = parse(std::string("mpirun --hostfile H") + kJob).value();
  EXPECT_EQ(command.ranks, std::nullopt);
  EXPECT_EQ(with_ranks(command, 1, parse_generate_command).error().kind, ErrorKind::kInvalidArgument);
}

TEST(WatchedCommand, AddsAnExitRecordOnlyWhereThereIsNone) {
  const auto command = parse(std::string("mpirun -n 2") + kJob).value();
  EXPECT_THAT(line_of(with_exit_record(command, "R/1")), EndsWith("--journal J --exit-record R/1"));
  const auto own = parse(std::string(kJob) + " --exit-record X").value();
  EXPECT_EQ(with_exit_record(own, "R/1"), own.words);
}

TEST(WatchedCommand, RefusesWhatCannotGoOn) {
  EXPECT_THAT(parse("mpirun -n 2 sleep 5").error().message, HasSubstr("lockstep generate"));
  EXPECT_THAT(parse("lockstep generate --model M --prompt x").error().message, HasSubstr("without a journal"));
  EXPECT_THAT(parse(std::string(kJob) + " --no-such-option").error().message, HasSubstr("no-such-option"));
}

}  // namespace
}  // namespace lockstep::launcher
