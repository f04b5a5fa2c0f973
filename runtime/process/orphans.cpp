#include "runtime/process/orphans.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "runtime/process/own_children.h"
#include "runtime/process/process_table.h"

namespace lockstep::process {
namespace {

bool is_orphan(pid_t child) { return !OwnChildren::instance().has(child); }

/// Reaps an orphan that has ended. Returns whether there was one; a child of the program's own that has ended hides
/// others until its owner has reaped it.
bool reap_orphan() {
  siginfo_t ended{};
  if (::waitid(P_ALL, 0, &ended, WEXITED | WNOHANG | WNOWAIT) != 0) return errno == EINTR;
  if (ended.si_pid == 0 || !is_orphan(ended.si_pid)) return false;
  return ::waitpid(ended.si_pid, nullptr, WNOHANG) > 0;
}

std::vector<pid_t> living_orphans() {
  std::vector<pid_t> found;
  for (const ListedProcess& process : list_processes()) {
    if (process.parent == ::getpid() && is_orphan(process.pid)) found.push_back(process.pid);
  }
  return found;
}

}  // namespace

void adopt_orphans() { ::prctl(PR_SET_CHILD_SUBREAPER, 1); }

bool end_orphans(Duration grace, Duration limit) {
  constexpr int kPauseMs = 5;
  const SteadyClock clock;
  const Deadline patience(clock, grace), end(clock, limit);
  while (true) {
    const std::vector<pid_t> left = living_orphans();
    bool has_reaped = false;
    while (reap_orphan()) has_reaped = true;
    if (left.empty() && !has_reaped) return true;
    if (end.has_passed()) return false;
    if (patience.has_passed()) {
      for (const pid_t pid : left) ::kill(pid, SIGKILL);
    }
    if (!has_reaped) ::poll(nullptr, 0, kPauseMs);
  }
}

}  // namespace lockstep::process
