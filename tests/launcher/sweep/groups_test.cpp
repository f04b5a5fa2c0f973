#include "launcher/measure/sweep/groups.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

namespace lockstep::launcher {
namespace {

using End = process::ChildOutcome::End;
using std::chrono::operator""s;

constexpr process::ChildLimits kLimits{.deadline = 60s};

/// Shells that run `scripts`, in which $BARRIER is the end of the barrier.
GroupCommand shells(std::vector<std::string> scripts) {
  return [scripts = std::move(scripts)](size_t group, std::optional<int> barrier) {
    return process::ChildCommand{
        .words = {"bash", "-c", scripts.at(group)},
        .environment = {{"PATH", "/usr/bin:/bin"}, {"BARRIER", fmt::format("{}", barrier.value_or(-1))}}};
  };
}

TEST(Groups, RunAtTheSameTime) {
  const std::string fifo = ::testing::TempDir() + "lockstep_groups";
  std::filesystem::remove(fifo);
  ASSERT_EQ(std::system(("mkfifo '" + fifo + "'").c_str()), 0);
  const process::ChildStop stop;
  // Each opens its end of the pipe when the other does.
  const auto ended =
      run_groups(2, shells({"echo > '" + fifo + "'", "read line < '" + fifo + "'"}), kLimits, stop).value();
  EXPECT_TRUE(ended.outcome.succeeded());
  std::filesystem::remove(fifo);
}

TEST(Groups, MeetAtTheirBarrier) {
  const process::ChildStop stop;
  const std::string meet = "printf . >&$BARRIER; read -N 1 -u $BARRIER byte && test $byte = .";
  EXPECT_TRUE(run_groups(3, shells({meet, meet, meet}), kLimits, stop).value().outcome.succeeded());
}

TEST(Groups, AreAllEndedWhenOneFails) {
  const process::ChildStop stop;
  const auto ended = run_groups(2, shells({"sleep 600", "exit 3"}), kLimits, stop).value();
  EXPECT_EQ(ended.group, 1);
  EXPECT_EQ(ended.outcome.code, 3);
  EXPECT_EQ(ended.outcome.end, End::kItself);
}

TEST(Groups, NameTheOneThatFailedAndNotThoseThatMissedIt) {
  const process::ChildStop stop;
  const std::string waits = "printf . >&$BARRIER; read -N 1 -u $BARRIER byte || exit 4";
  for (int i = 0; i < 10; ++i) {
    const auto ended = run_groups(3, shells({waits, waits, "kill -9 $$"}), kLimits, stop).value();
    ASSERT_EQ(ended.group, 2);
    ASSERT_EQ(ended.outcome.signal, 9);
  }
}

TEST(Groups, AreEndedOnRequestAndAtTheirDeadline) {
  process::ChildStop stop;
  const auto late = run_groups(2, shells({"sleep 600", "sleep 600"}), {.deadline = 0s}, stop).value();
  EXPECT_EQ(late.outcome.end, End::kDeadline);
  stop.raise();
  const auto stopped = run_groups(2, shells({"sleep 600", "sleep 600"}), kLimits, stop).value();
  EXPECT_EQ(stopped.outcome.end, End::kStop);
}

TEST(Groups, HaveNoBarrierWhereThereIsOne) {
  const process::ChildStop stop;
  EXPECT_TRUE(run_groups(1, shells({"test $BARRIER = -1"}), kLimits, stop).value().outcome.succeeded());
}

TEST(Groups, DoNotBeginWithoutOneOfThem) {
  const process::ChildStop stop;
  const auto command = [](size_t group, std::optional<int>) {
    return process::ChildCommand{.words = {group == 0 ? "sleep" : "no-such-program", "600"},
                                 .environment = {{"PATH", "/usr/bin:/bin"}}};
  };
  const auto ended = run_groups(2, command, kLimits, stop);
  ASSERT_FALSE(ended.has_value());
  EXPECT_EQ(ended.error().kind, ErrorKind::kNotFound);
}

}  // namespace
}  // namespace lockstep::launcher
