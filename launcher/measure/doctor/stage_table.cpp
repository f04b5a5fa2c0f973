#include "launcher/measure/doctor/stage_table.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <random>
#include <sstream>

#include "runtime/core/hash.h"
#include "transport/network.h"

namespace lockstep::launcher {
namespace {

constexpr int kPeriodMs = 200;                              // between two signs of life
constexpr auto kSilence = std::chrono::milliseconds(2500);  // a loaded machine may delay a few signs

/// A destination of signs: an abstract Unix name or an address.
using Target = transport::SocketAddress;

Target local_target(const std::string& job) {
  Target target;
  auto& address = reinterpret_cast<sockaddr_un&>(target.storage);
  address.sun_family = AF_UNIX;
  const std::string name = fmt::format("lockstep-doctor-{}-{:016x}", geteuid(), Fingerprint().add(job).value());
  std::memcpy(address.sun_path + 1, name.data(), name.size());  // a zero byte in front: no file
  target.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return target;
}

int open_socket(int family) { return ::socket(family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0); }

/// Of IPv6 and IPv4, or of IPv4 alone where the system has no other.
int open_network_socket() {
  const int socket = open_socket(AF_INET6);
  if (socket < 0) return open_socket(AF_INET);
  const int off = 0;
  setsockopt(socket, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  return socket;
}

bool serves_both(int socket) {
  int family = AF_INET;
  socklen_t size = sizeof family;
  return getsockopt(socket, SOL_SOCKET, SO_DOMAIN, &family, &size) == 0 && family == AF_INET6;
}

}  // namespace

std::vector<std::string> who_is_missing(const std::vector<RankSign>& signs, int stage,
                                        const std::vector<std::string>& stages, TimePoint now) {
  std::vector<std::string> lines;
  for (size_t rank = 0; rank < signs.size(); ++rank) {
    const RankSign& sign = signs[rank];
    if (sign.stage < 0) {
      lines.push_back(fmt::format("rank {} has not been heard of", rank));
      continue;
    }
    const std::string& last = stages[std::min(static_cast<size_t>(sign.stage), stages.size() - 1)];
    if (now - sign.heard > kSilence) {
      lines.push_back(fmt::format("rank {} has been silent for {:.1f} s, last in '{}' (stopped, or gone)", rank,
                                  to_seconds(now - sign.heard), last));
    } else if (sign.stage < stage) {
      lines.push_back(fmt::format("rank {} is still in '{}'", rank, last));
    }
  }
  return lines;
}

void StageTable::note(int rank, int stage) {
  std::lock_guard lock(mutex_);
  if (rank < 0 || rank >= std::ssize(signs_)) return;
  RankSign& sign = signs_[static_cast<size_t>(rank)];
  sign.stage = std::max(sign.stage, stage);
  sign.heard = clock_.now();
}

std::vector<RankSign> StageTable::signs() const {
  std::lock_guard lock(mutex_);
  return signs_;
}

void StageTable::grow(int size) {
  std::lock_guard lock(mutex_);
  if (size > std::ssize(signs_)) signs_.resize(static_cast<size_t>(size));
}

std::string job_name(const transport::LaunchEnvironment& place) {
  return place.job.empty() ? fmt::format("parent {}", getppid()) : place.job;
}

std::thread start_deaf_thread(std::function<void()> body) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  std::thread thread(std::move(body));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

struct StageBeacon::Sockets {
  int local = -1, network = -1;
  std::mutex mutex;  // guards the fields below
  std::vector<Target> targets;
  uint64_t token = 0;  // of targets on the network

  ~Sockets() {
    for (const int socket : {local, network}) {
      if (socket >= 0) close(socket);
    }
  }
};

StageBeacon::StageBeacon(StageTable& board, int rank, const std::string& job)
    : board_(board), rank_(rank), sockets_(std::make_unique<Sockets>()) {
  const Target meeting = local_target(job);
  sockets_->local = open_socket(AF_UNIX);
  sockets_->network = open_network_socket();
  if (rank == 0) {
    // The name may belong to another job of the same name, which then receives its own ranks' signs.
    if (bind(sockets_->local, meeting.get(), meeting.size) != 0) {
      close(std::exchange(sockets_->local, -1));
    }
  } else {
    sockets_->targets.push_back(meeting);
  }
  board_.note(rank, 0);
  thread_ = start_deaf_thread([this] { run(); });
}

StageBeacon::~StageBeacon() {
  done_ = true;
  thread_.join();
}

void StageBeacon::announce(int stage) {
  stage_ = stage;
  board_.note(rank_, stage);
  send();
}

std::string StageBeacon::listen() {
  const int socket = sockets_->network;
  const auto all = transport::parse_ip_address(serves_both(socket) ? "::" : "0.0.0.0");
  transport::SocketAddress any = transport::socket_address(*all, /*port=*/0);
  if (bind(socket, any.get(), any.size) != 0) return "";
  if (getsockname(socket, any.get(), &any.size) != 0) return "";
  std::random_device random;
  std::lock_guard lock(sockets_->mutex);
  sockets_->token = static_cast<uint64_t>(random()) << 32 | random();
  std::string told = fmt::format("{} {}", sockets_->token, any.port());
  for (const transport::Interface& own : transport::own_interfaces()) {
    told += fmt::format(" {}", to_text(own.address));
  }
  return told;
}

void StageBeacon::add_targets(const std::string& told) {
  std::istringstream words(told);
  uint64_t token = 0;
  uint16_t port = 0;
  if (!(words >> token >> port)) return;
  std::lock_guard lock(sockets_->mutex);
  sockets_->token = token;
  for (std::string host; words >> host;) {
    const auto address = transport::parse_ip_address(host);
    if (!address) return;
    sockets_->targets.push_back(serves_both(sockets_->network) ? transport::dual_socket_address(*address, port)
                                                               : transport::socket_address(*address, port));
  }
}

/// A sign that cannot be delivered is lost; the next one follows soon.
void StageBeacon::send() {
  std::lock_guard lock(sockets_->mutex);
  const std::string text = fmt::format("{} {} {}", sockets_->token, rank_, stage_.load());
  for (const Target& target : sockets_->targets) {
    const int socket = target.storage.ss_family == AF_UNIX ? sockets_->local : sockets_->network;
    ::sendto(socket, text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL, target.get(), target.size);
  }
}

void StageBeacon::receive(int socket) {
  char text[64];
  for (ssize_t size = 0; (size = ::recv(socket, text, sizeof(text), MSG_DONTWAIT)) > 0;) {
    std::istringstream words(std::string(text, static_cast<size_t>(size)));
    uint64_t token = 0;
    int rank = -1, stage = -1;
    if (!(words >> token >> rank >> stage) || stage < 0) continue;
    std::unique_lock lock(sockets_->mutex);
    const bool is_ours = socket == sockets_->local || token == sockets_->token;
    lock.unlock();
    if (is_ours) board_.note(rank, stage);
  }
}

void StageBeacon::run() {
  while (!done_) {
    if (rank_ != 0) {
      send();
      std::this_thread::sleep_for(std::chrono::milliseconds(kPeriodMs));
      continue;
    }
    pollfd sockets[] = {{.fd = sockets_->local, .events = POLLIN, .revents = 0},
                        {.fd = sockets_->network, .events = POLLIN, .revents = 0}};
    ::poll(sockets, std::size(sockets), kPeriodMs);
    for (const pollfd& one : sockets) {
      if (one.fd >= 0 && (one.revents & POLLIN) != 0) receive(one.fd);
    }
    board_.note(0, stage_);
  }
}

}  // namespace lockstep::launcher
