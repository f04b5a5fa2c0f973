#include "launcher/measure/doctor/stage_table.h"

#include <arpa/inet.h>
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
struct Target {
  sockaddr_storage address{};
  socklen_t size = 0;
};

Target local_target(const std::string& job) {
  Target target;
  auto& address = reinterpret_cast<sockaddr_un&>(target.address);
  address.sun_family = AF_UNIX;
  const std::string name = fmt::format("lockstep-doctor-{}-{:016x}", geteuid(), Fingerprint().add(job).value());
  std::memcpy(address.sun_path + 1, name.data(), name.size());  // a zero byte in front: no file
  target.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return target;
}

Target network_target(uint32_t host, uint16_t port) {
  Target target;
  auto& address = reinterpret_cast<sockaddr_in&>(target.address);
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(host);
  address.sin_port = htons(port);
  target.size = sizeof(sockaddr_in);
  return target;
}

int open_socket(int family) { return ::socket(family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0); }

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
  sockets_->network = open_socket(AF_INET);
  if (rank == 0) {
    // The name may belong to another job of the same name, which then receives its own ranks' signs.
    if (bind(sockets_->local, reinterpret_cast<const sockaddr*>(&meeting.address), meeting.size) != 0) {
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
  sockaddr_in any{};
  any.sin_family = AF_INET;
  socklen_t size = sizeof(any);
  const int socket = sockets_->network;
  if (bind(socket, reinterpret_cast<const sockaddr*>(&any), size) != 0) return "";
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&any), &size) != 0) return "";
  std::random_device random;
  std::lock_guard lock(sockets_->mutex);
  sockets_->token = static_cast<uint64_t>(random()) << 32 | random();
  std::string told = fmt::format("{} {}", sockets_->token, ntohs(any.sin_port));
  for (const transport::Interface& own : transport::own_interfaces()) told += fmt::format(" {}", own.address);
  return told;
}

void StageBeacon::add_targets(const std::string& told) {
  std::istringstream words(told);
  uint64_t token = 0;
  uint16_t port = 0;
  if (!(words >> token >> port)) return;
  std::lock_guard lock(sockets_->mutex);
  sockets_->token = token;
  for (uint32_t host = 0; words >> host;) sockets_->targets.push_back(network_target(host, port));
}

/// A sign that cannot be delivered is lost; the next one follows soon.
void StageBeacon::send() {
  std::lock_guard lock(sockets_->mutex);
  const std::string text = fmt::format("{} {} {}", sockets_->token, rank_, stage_.load());
  for (const Target& target : sockets_->targets) {
    const int socket = target.address.ss_family == AF_UNIX ? sockets_->local : sockets_->network;
    ::sendto(socket, text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL,
             reinterpret_cast<const sockaddr*>(&target.address), target.size);
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
