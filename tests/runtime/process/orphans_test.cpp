#include "runtime/process/orphans.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "runtime/process/child_process.h"
#include "runtime/process/process_table.h"

namespace lockstep::process {
namespace {

using namespace std::chrono_literals;

std::vector<pid_t> children() {
  std::vector<pid_t> found;
  for (const ListedProcess& process : list_processes()) {
    if (process.parent == ::getpid()) found.push_back(process.pid);
  }
  return found;
}

/// Leaves a process in another session, whose parent has ended. The shell ends when the process has begun.
void leave_orphan(const std::string& command) {
  const ChildCommand shell{
      .words = {"sh", "-c", "begun=$(setsid -f sh -c 'echo begun; exec " + command + " > /dev/null 2>&1')"},
      .environment = {{"PATH", "/usr/bin:/bin"}}};
  ASSERT_TRUE(run_child(shell, {.deadline = 60s}, nullptr).value().succeeded());
}

TEST(Orphans, AreAdoptedKilledAndReaped) {
  adopt_orphans();
  leave_orphan("sleep 600");
  const std::vector<pid_t> adopted = children();
  ASSERT_EQ(adopted.size(), 1u);
  EXPECT_TRUE(end_orphans(0s, 60s));
  EXPECT_NE(::kill(adopted.front(), 0), 0);  // not even a zombie
}

TEST(Orphans, EndByThemselvesWithinTheirGrace) {
  adopt_orphans();
  leave_orphan("true");
  EXPECT_TRUE(end_orphans(60s, 60s));
}

TEST(Orphans, AreNotTheChildrenOfTheProgramItself) {
  adopt_orphans();
  const auto own = ChildProcess::start({.words = {"sleep", "600"}, .environment = {{"PATH", "/usr/bin:/bin"}}}).value();
  leave_orphan("sleep 600");
  EXPECT_TRUE(end_orphans(0s, 60s));
  EXPECT_EQ(children(), std::vector<pid_t>{own->pid()});
  own->send(SIGTERM);
  EXPECT_EQ(own->wait({}, nullptr).signal, SIGTERM);  // end_orphans has not reaped it
}

/// A child whose first thread has ended, while another one lives.
pid_t leave_thread() {
  const pid_t child = ::fork();
  if (child == 0) {
    std::thread([] { ::pause(); }).detach();
    ::syscall(SYS_exit, 0);  // of this thread alone
  }
  const std::filesystem::path stat = "/proc/" + std::to_string(child) + "/stat";
  const SteadyClock clock;
  const Deadline patience(clock, 60s);
  for (std::string text; text.find(") Z ") == std::string::npos && !patience.has_passed();) {
    std::getline(std::ifstream(stat), text);
  }
  return child;
}

TEST(Orphans, LiveUntilTheirLastThreadHasEnded) {
  const pid_t child = leave_thread();
  EXPECT_EQ(children(), std::vector<pid_t>{child});
  EXPECT_TRUE(end_orphans(0s, 60s));
  EXPECT_NE(::kill(child, SIGKILL), 0);  // not even a zombie
}

TEST(Orphans, ThereAreNoneWithoutChildren) { EXPECT_TRUE(end_orphans(0s, 0s)); }

}  // namespace
}  // namespace lockstep::process
