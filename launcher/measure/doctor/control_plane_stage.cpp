// Checks every rank's connection to rank 0 on the control plane's network.
//
//   rank 0   listen ── sends its port ──► echo, echo, …
//   rank r                                connect, byte ⇄ answer (kRounds times)
#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <sstream>

#include "engine/group/agreement.h"
#include "engine/group/control_plane.h"
#include "launcher/measure/doctor/judgements.h"
#include "launcher/measure/doctor/stage_table.h"
#include "launcher/measure/doctor/stages.h"
#include "runtime/core/readiness.h"
#include "transport/network.h"

namespace lockstep::launcher {
namespace {

constexpr int kRounds = 20;

sockaddr_in address_of(const std::string& text, uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  inet_pton(AF_INET, text.c_str(), &address.sin_addr);
  return address;
}

/// Sends every byte back to its sender, on a separate thread.
class EchoServer {
 public:
  EchoServer() = default;
  ~EchoServer() {
    done_ = true;
    if (thread_.joinable()) thread_.join();
    for (const pollfd& socket : sockets_) close(socket.fd);
  }
  EchoServer(const EchoServer&) = delete;
  EchoServer& operator=(const EchoServer&) = delete;

  Result<uint16_t> listen(const std::string& text) {
    const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    sockaddr_in address = address_of(text, 0);
    socklen_t size = sizeof(address);
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    sockets_.push_back({.fd = socket, .events = POLLIN, .revents = 0});
    if (socket < 0 || bind(socket, any, size) != 0 || ::listen(socket, SOMAXCONN) != 0 ||
        getsockname(socket, any, &size) != 0) {
      return Error{ErrorKind::kFailedPrecondition,
                   fmt::format("[doctor] rank 0 cannot listen at {}: found '{}', expected a free port; name another "
                               "network with --interface",
                               text, std::strerror(errno)),
                   0};
    }
    thread_ = start_deaf_thread([this] { serve(); });
    return ntohs(address.sin_port);
  }

 private:
  void serve() {
    while (!done_) {
      if (::poll(sockets_.data(), sockets_.size(), /*milliseconds=*/50) <= 0) continue;
      for (size_t i = 1; i < sockets_.size(); ++i) {
        if (sockets_[i].revents != 0) answer(sockets_[i]);
      }
      if (const int joined = ::accept4(sockets_[0].fd, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC); joined >= 0) {
        const int yes = 1;
        setsockopt(joined, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
        sockets_.push_back({.fd = joined, .events = POLLIN, .revents = 0});
      }
    }
  }

  static void answer(pollfd& socket) {
    char byte = 0;
    const ssize_t size = recv(socket.fd, &byte, 1, MSG_DONTWAIT);
    if (size == 1) send(socket.fd, &byte, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (size == 0) socket.events = 0;
  }

  std::vector<pollfd> sockets_;  // the first one listens
  std::atomic<bool> done_ = false;
  std::thread thread_;
};

bool wait_for(int socket, short event, const Deadline& deadline) {
  if (becomes_ready(socket, event, deadline.remaining())) return true;
  errno = ETIMEDOUT;
  return false;
}

/// Connects and measures the median round trip of a byte in seconds; empty (with errno) if that fails.
std::optional<double> measure(int socket, const sockaddr_in& rank_0, const Clock& clock, const Deadline& deadline) {
  const int yes = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
  if (connect(socket, reinterpret_cast<const sockaddr*>(&rank_0), sizeof(rank_0)) != 0 && errno != EINPROGRESS) {
    return std::nullopt;
  }
  if (!wait_for(socket, POLLOUT, deadline)) return std::nullopt;
  int error = 0;
  socklen_t size = sizeof(error);
  getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size);
  errno = error;
  if (error != 0) return std::nullopt;
  std::vector<double> seconds;
  for (int round = 0; round < kRounds; ++round) {
    char byte = 'a';
    const TimePoint begin = clock.now();
    if (send(socket, &byte, 1, MSG_NOSIGNAL) != 1 || !wait_for(socket, POLLIN, deadline)) return std::nullopt;
    if (recv(socket, &byte, 1, 0) != 1) return std::nullopt;
    seconds.push_back(to_seconds(clock.now() - begin));
  }
  std::ranges::nth_element(seconds, seconds.begin() + kRounds / 2);
  return seconds[kRounds / 2];
}

std::string side_of(const DoctorRank& rank, const group::ControlPlane& plane, size_t which) {
  return plane.rank_sides.empty() ? rank.plan.places[which].host : plane.rank_sides[which];
}

/// This rank's round trip to rank 0 in seconds; 0 on rank 0.
Result<double> round_trip(const DoctorRank& rank, const group::ControlPlane& plane, uint16_t port) {
  if (rank.rank() == 0) return 0.0;
  const Deadline deadline(rank.member.clock(), duration_of(rank.command.stage_deadline_s / 2));
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  const auto seconds = measure(socket, address_of(plane.address, port), rank.member.clock(), deadline);
  const int error = errno;
  close(socket);
  if (seconds) return *seconds;
  return Error{
      ErrorKind::kFailedPrecondition,
      fmt::format("[doctor] rank {} cannot reach rank 0 at {}:{} on {} from {}: found '{}', expected an answer "
                  "within {:.3g} s; name the network between the hosts with --interface NAME, ADDRESS or "
                  "SUBNET (to lockstep generate, too), and open its ports in firewalls",
                  rank.rank(), plane.address, port, side_of(rank, plane, 0),
                  side_of(rank, plane, static_cast<size_t>(rank.rank())), std::strerror(error),
                  rank.command.stage_deadline_s / 2),
      rank.rank()};
}

}  // namespace

Result<Check> run_control_plane(DoctorRank& rank) {
  if (rank.has_threads()) return skipped_check("the ranks are threads of one process");
  if (rank.size() == 1 && !rank.command.run.interface) return skipped_check("one rank");
  transport::Bootstrap& bootstrap = rank.member.bootstrap();
  LOCKSTEP_TRY(const group::ControlPlane plane,
               group::find_control_plane(rank.command.run.interface.value_or(""), bootstrap, rank.member.log()));
  EchoServer server;
  uint16_t port = 0;
  const auto listen = [&]() -> Result<void> {
    if (rank.rank() != 0) return ok();
    LOCKSTEP_TRY(port, server.listen(plane.address));
    return ok();
  };
  LOCKSTEP_TRY_VOID(group::all_succeeded(bootstrap, listen()));
  LOCKSTEP_TRY(const auto ports, bootstrap.exchange(std::to_string(port)));
  const Result<double> own = round_trip(rank, plane, static_cast<uint16_t>(std::atoi(ports[0].c_str())));
  LOCKSTEP_TRY_VOID(group::all_succeeded(bootstrap, own.has_value() ? Result<void>(ok()) : Result<void>(own.error())));
  LOCKSTEP_TRY(const auto told, bootstrap.exchange(fmt::format("{:.9f}", own.value())));
  double slowest = 0.0;
  for (const std::string& seconds : told) slowest = std::max(slowest, std::strtod(seconds.c_str(), nullptr));
  Check check;
  check.found = fmt::format("rank 0 is reached at {} on {}; a message and its reply take {:.3g} ms at most",
                            plane.address, side_of(rank, plane, 0), slowest * 1e3);
  return check;
}

}  // namespace lockstep::launcher
