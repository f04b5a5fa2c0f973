#include "launcher/process/process_barrier.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "runtime/core/readiness.h"

namespace lockstep::launcher {
namespace {

constexpr char kByte = '.';  // "here", and "all are here"

Error lost_other() {
  return {
      ErrorKind::kFailedPrecondition,
      "[launcher] cannot begin together with the others: found that one has ended, expected all at the barrier; its "
      "own output says why"};
}

bool send_byte(int socket) {
  ssize_t sent = 0;
  do {
    sent = ::send(socket, &kByte, 1, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent == 1;
}

bool receive_byte(int socket) {
  char byte = 0;
  ssize_t received = 0;
  do {
    received = ::recv(socket, &byte, 1, 0);
  } while (received < 0 && errno == EINTR);
  return received == 1;
}

}  // namespace

Result<std::unique_ptr<ProcessBarrier>> ProcessBarrier::create(size_t members) {
  std::unique_ptr<ProcessBarrier> barrier(new ProcessBarrier);
  for (size_t i = 0; i < members; ++i) {
    std::array<int, 2> pair{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()) != 0) {
      return Error{
          ErrorKind::kUnavailable,
          fmt::format("[launcher] cannot make a barrier of {} programs: found '{}', expected free descriptors; "
                      "raise ulimit -n",
                      members, std::strerror(errno))};
    }
    barrier->sockets_.emplace_back(pair[0]);
    barrier->ends_.emplace_back(pair[1]);
  }
  return barrier;
}

ProcessBarrier::~ProcessBarrier() {
  stop_.raise();
  if (thread_.joinable()) thread_.join();
}

void ProcessBarrier::start() {
  ends_.clear();  // the end of a member's process closes its last copy
  thread_ = std::thread([this] { run(); });
}

std::optional<size_t> ProcessBarrier::first_gone() const {
  const int member = first_gone_;
  return member < 0 ? std::nullopt : std::optional(static_cast<size_t>(member));
}

/// Waits without a limit: every member's end is an event, and `stop_`.
void ProcessBarrier::run() {
  std::vector<pollfd> waits{{.fd = stop_.descriptor(), .events = POLLIN, .revents = 0}};
  for (const Descriptor& socket : sockets_) waits.push_back({.fd = socket.get(), .events = POLLIN, .revents = 0});
  for (size_t here = 0;;) {
    if (::poll(waits.data(), waits.size(), -1) < 0) continue;  // a signal
    if (waits[0].revents != 0) return;
    for (size_t i = 1; i < waits.size(); ++i) {
      if (waits[i].revents == 0) continue;
      if (!receive_byte(waits[i].fd)) {  // the others are not to wait for it
        first_gone_ = static_cast<int>(i - 1);
        return sockets_.clear();
      }
      ++here;
    }
    if (here < sockets_.size()) continue;
    here = 0;
    for (const Descriptor& socket : sockets_) send_byte(socket.get());
  }
}

Result<void> BarrierEnd::arrive() const {
  if (send_byte(descriptor_)) return ok();
  if (errno == EPIPE || errno == ECONNRESET) return lost_other();
  return Error{ErrorKind::kInvalidArgument,
               fmt::format("[launcher] cannot use the barrier: found descriptor {} ({}), expected an inherited socket; "
                           "omit --barrier",
                           descriptor_, std::strerror(errno))};
}

Result<bool> BarrierEnd::wait(Duration limit) const {
  if (!becomes_ready(descriptor_, POLLIN, limit)) return false;
  if (receive_byte(descriptor_)) return true;
  return lost_other();
}

}  // namespace lockstep::launcher
