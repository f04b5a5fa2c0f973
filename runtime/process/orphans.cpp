#include "runtime/process/orphans.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "runtime/process/process_table.h"

namespace lockstep::process {
namespace {

void kill_children() {
  for (const ListedProcess& process : list_processes()) {
    if (process.parent == ::getpid()) ::kill(process.pid, SIGKILL);
  }
}

}  // namespace

void adopt_orphans() { ::prctl(PR_SET_CHILD_SUBREAPER, 1); }

bool end_children(Duration grace, Duration limit) {
  constexpr int kPauseMs = 5;
  const SteadyClock clock;
  const Deadline patience(clock, grace), end(clock, limit);
  while (true) {
    const pid_t reaped = ::waitpid(-1, nullptr, WNOHANG);
    if (reaped > 0 || (reaped < 0 && errno == EINTR)) continue;
    if (reaped < 0) return true;  // ECHILD
    if (end.has_passed()) return false;
    if (patience.has_passed()) kill_children();
    ::poll(nullptr, 0, kPauseMs);
  }
}

}  // namespace lockstep::process
