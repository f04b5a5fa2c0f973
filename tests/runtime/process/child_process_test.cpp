#include "runtime/process/child_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

namespace lockstep::process {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using namespace std::chrono_literals;

/// A shell whose output is captured; each test sets its command.
ChildCommand shell(const std::string& script) {
  return {.words = {"sh", "-c", script},
          .environment = {{"PATH", "/usr/bin:/bin"}},
          .output = ChildStream::kCapture,
          .errors = ChildStream::kCapture};
}

ChildOutcome outcome_of(const ChildCommand& command, const ChildLimits& limits = {.deadline = 60s},
                        const ChildStop* stop = nullptr) {
  return run_child(command, limits, stop).value();
}

bool is_running(const std::string& pid) { return std::filesystem::exists("/proc/" + pid); }

TEST(ChildProcess, TellsCodesFromSignals) {
  EXPECT_TRUE(outcome_of(shell("exit 0")).succeeded());
  const ChildOutcome failed = outcome_of(shell("exit 3"));
  EXPECT_EQ(failed.code, 3);
  EXPECT_EQ(failed.signal, std::nullopt);
  EXPECT_EQ(to_string(failed), "exit code 3");
  const ChildOutcome killed = outcome_of(shell("kill -9 $$"));
  EXPECT_EQ(killed.code, std::nullopt);
  EXPECT_EQ(killed.signal, SIGKILL);
  EXPECT_EQ(killed.shell_code(), 137);
  EXPECT_THAT(to_string(killed), StartsWith("signal 9"));
}

TEST(ChildProcess, KeepsTheEndOfEachStream) {
  ChildCommand command = shell("seq 1 20000; echo at last >&2");
  command.kept_bytes = 12;
  const ChildOutcome outcome = outcome_of(command);
  EXPECT_EQ(outcome.output, "19999\n20000\n");
  EXPECT_EQ(outcome.errors, "at last\n");
}

TEST(ChildProcess, AddsBothStreamsToALogInTheFolderWhereItRuns) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "child_process_log";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "log") << "before\n";
  ChildCommand command = shell("echo one; echo two >&2; touch here");
  command.folder = folder;
  command.log = folder / "log";
  command.output = command.errors = ChildStream::kLog;
  EXPECT_TRUE(outcome_of(command).succeeded());
  std::ifstream log(folder / "log");
  const std::string text{std::istreambuf_iterator<char>(log), {}};
  EXPECT_EQ(text, "before\none\ntwo\n");
  EXPECT_TRUE(std::filesystem::exists(folder / "here"));
  std::filesystem::remove_all(folder);
}

TEST(ChildProcess, IsFoundBeforeItGoesToItsFolder) {
  const std::filesystem::path script = "child_process_script";  // where this test runs
  std::ofstream(script) << "#!/bin/sh\npwd\n";
  std::filesystem::permissions(script, std::filesystem::perms::owner_all);
  ChildCommand command = shell("");
  command.words = {"./" + script.string()};
  command.folder = "/";
  EXPECT_EQ(outcome_of(command).output, "/\n");
  std::filesystem::remove(script);
}

TEST(ChildProcess, SaysWhenItsLogCannotBeWritten) {
  ChildCommand command = shell("exit 0");
  command.output = ChildStream::kLog;
  command.log = "/nowhere/log";
  const auto started = ChildProcess::start(command);
  ASSERT_FALSE(started.has_value());
  EXPECT_EQ(started.error().kind, ErrorKind::kUnavailable);
  EXPECT_THAT(started.error().message, HasSubstr("/nowhere/log"));
}

TEST(ChildProcess, SeesOnlyTheEnvironmentThatItIsGiven) {
  ChildCommand command = shell("env");
  command.environment["ONE"] = "1 and 2";
  EXPECT_THAT(outcome_of(command).output, HasSubstr("ONE=1 and 2\n"));
  ASSERT_NE(std::getenv("HOME"), nullptr);
  EXPECT_EQ(outcome_of(command).output.find("HOME="), std::string::npos);
}

TEST(ChildProcess, LooksForTheProgramInThePathOfTheChild) {
  ChildCommand command = shell("exit 0");
  command.environment["PATH"] = "/nowhere";
  const auto started = ChildProcess::start(command);
  ASSERT_FALSE(started.has_value());
  EXPECT_EQ(started.error().kind, ErrorKind::kNotFound);
  EXPECT_THAT(started.error().message, HasSubstr("sh"));
}

TEST(ChildProcess, SaysWhenAFileIsNoProgram) {
  const auto started = ChildProcess::start({.words = {"/etc/hostname-that-is-not-there"}, .environment = {}});
  ASSERT_FALSE(started.has_value());
  EXPECT_EQ(started.error().kind, ErrorKind::kNotFound);
}

TEST(ChildProcess, IsEndedAtItsDeadline) {
  const ChildOutcome outcome = outcome_of(shell("sleep 600"), {.deadline = 100ms});
  EXPECT_EQ(outcome.end, ChildOutcome::End::kDeadline);
  EXPECT_EQ(outcome.signal, SIGTERM);
  EXPECT_FALSE(outcome.succeeded());
  EXPECT_THAT(to_string(outcome), HasSubstr("deadline"));
}

/// Runs a shell that runs `echo > $READY` when ready, and then requests its end.
ChildOutcome ended_when_ready(const std::string& script, Duration grace) {
  const std::string fifo =
      ::testing::TempDir() + "lockstep_ready_" + ::testing::UnitTest::GetInstance()->current_test_info()->name();
  std::filesystem::remove(fifo);
  EXPECT_EQ(std::system(("mkfifo '" + fifo + "'").c_str()), 0);
  ChildStop stop;
  std::thread other([&] {
    std::string line;
    std::ifstream ready(fifo);  // opens once the child opens it
    std::getline(ready, line);
    stop.raise();
  });
  ChildCommand command = shell(script);
  command.environment["READY"] = fifo;
  ChildOutcome outcome = outcome_of(command, {.grace = grace}, &stop);
  other.join();
  std::filesystem::remove(fifo);
  return outcome;
}

TEST(ChildProcess, IsKilledWhenItDoesNotObeyInTime) {
  const ChildOutcome outcome = ended_when_ready("trap '' TERM; echo > $READY; while true; do sleep 600; done", 100ms);
  EXPECT_EQ(outcome.end, ChildOutcome::End::kStop);
  EXPECT_EQ(outcome.signal, SIGKILL);
}

TEST(ChildProcess, MayAnswerTheEndSignalInItsGrace) {
  const ChildOutcome outcome =
      ended_when_ready("trap 'echo bye; exit 7' TERM; echo > $READY; while true; do sleep 0.05; done", 60s);
  EXPECT_EQ(outcome.end, ChildOutcome::End::kStop);
  EXPECT_EQ(outcome.code, 7);
  EXPECT_EQ(outcome.output, "bye\n");
}

TEST(ChildProcess, EndsWhenAnotherThreadAsksForIt) {
  ChildStop stop;
  EXPECT_FALSE(stop.is_raised());
  std::thread other([&] { stop.raise(); });
  const ChildOutcome outcome = outcome_of(shell("sleep 600"), {}, &stop);
  other.join();
  EXPECT_TRUE(stop.is_raised());
  EXPECT_EQ(outcome.end, ChildOutcome::End::kStop);
}

TEST(ChildProcess, LeavesNothingOfItsSessionBehind) {
  // The inner one has a separate process group, like the ranks of mpirun, and keeps the pipe open.
  const ChildOutcome outcome = outcome_of(shell("set -m; (trap '' TERM; exec sleep 600) & echo $!; exit 5"));
  EXPECT_EQ(outcome.code, 5);
  const std::string inner = outcome.output.substr(0, outcome.output.find('\n'));
  ASSERT_FALSE(inner.empty());
  std::ifstream stat("/proc/" + inner + "/stat");
  const std::string text((std::istreambuf_iterator<char>(stat)), std::istreambuf_iterator<char>());
  EXPECT_TRUE(!is_running(inner) || text.find(") Z") != std::string::npos) << text;
}

TEST(ChildProcess, EndsWithTheObjectThatHoldsIt) {
  pid_t pid = 0;
  {
    const auto child = ChildProcess::start(shell("sleep 600")).value();
    pid = child->pid();
    EXPECT_TRUE(is_running(std::to_string(pid)));
  }
  EXPECT_FALSE(is_running(std::to_string(pid)));
}

/// The hardware threads that a child with `command` may use, as the kernel lists them.
std::string allowed_threads(ChildCommand command) {
  command.words.back() = "sed -n 's/^Cpus_allowed_list:\\t//p' /proc/self/status";
  return outcome_of(command).output;
}

TEST(ChildProcess, RunsOnlyOnItsHardwareThreads) {
  cpu_set_t own;
  ASSERT_EQ(sched_getaffinity(0, sizeof own, &own), 0);
  int last = CPU_SETSIZE - 1;
  while (!CPU_ISSET(static_cast<size_t>(last), &own)) --last;
  ChildCommand command = shell("");
  const std::string inherited = allowed_threads(command);
  command.hardware_threads = {last, 5000};  // the kernel ignores those that the machine does not have
  EXPECT_EQ(allowed_threads(command), std::to_string(last) + "\n");
  command.hardware_threads.clear();
  EXPECT_EQ(allowed_threads(command), inherited);  // another child's are no concern of this process
}

TEST(ChildProcess, SaysWhenTheMachineHasNoneOfItsHardwareThreads) {
  ChildCommand command = shell("exit 0");
  command.hardware_threads = {5000, 5001};
  const auto started = ChildProcess::start(command);
  ASSERT_FALSE(started.has_value());
  EXPECT_EQ(started.error().kind, ErrorKind::kUnavailable);
  EXPECT_THAT(started.error().message, HasSubstr("hardware threads: found 5000,5001"));
}

TEST(ChildProcess, DoesNotInheritBlockedSignals) {
  sigset_t blocked, before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &blocked, &before);
  const ChildOutcome outcome = outcome_of(shell("kill -TERM $$; exit 0"));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  EXPECT_EQ(outcome.signal, SIGTERM);
}

}  // namespace
}  // namespace lockstep::process
