#include "transport/rank_listener.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <utility>

#include "runtime/core/secret.h"
#include "transport/ip_address.h"

namespace lockstep::transport {
namespace {

constexpr int kAtOnce = 64;  // connections accepted in one round
constexpr auto kWithoutFiles = std::chrono::milliseconds(100);

/// The address and the port of the other end.
std::pair<std::string, std::string> end_of(const SocketAddress& other) {
  const std::optional<IpAddress> address = ip_address_of(*other.get());
  if (!address) return {"", "a process of this host"};
  const std::string text = to_text(*address);
  return {text, with_port(text, other.port())};
}

bool is_of_other_user(const Descriptor& socket, const SocketAddress& address) {
  if (ip_address_of(*address.get())) return false;
  ucred peer{};
  socklen_t bytes = sizeof peer;
  return getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0 || peer.uid != geteuid();
}

bool send_now(const Descriptor& socket, std::string_view bytes) {
  return send(socket.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL) ==
         static_cast<ssize_t>(bytes.size());
}

bool is_power_of_ten(int64_t count) {
  while (count % 10 == 0) count /= 10;
  return count == 1;
}

}  // namespace

RankListener::RankListener(Descriptor listening, RankListenerOptions options)
    : listening_(std::move(listening)), options_(std::move(options)) {}

void RankListener::add_files(std::vector<pollfd>& files) const {
  if (accept_again_ == TimePoint{}) files.push_back({.fd = listening_.get(), .events = POLLIN, .revents = 0});
  for (const Pending& one : pending_) files.push_back({.fd = one.socket.get(), .events = POLLIN, .revents = 0});
}

Duration RankListener::patience(TimePoint now, Duration longest) const {
  Duration least = longest;
  if (!pending_.empty()) least = std::min<Duration>(least, pending_.front().deadline - now);
  if (accept_again_ != TimePoint{}) least = std::min<Duration>(least, accept_again_ - now);
  return std::max<Duration>(least, {});
}

std::vector<ProvenConnection> RankListener::take(TimePoint now) {
  std::vector<ProvenConnection> proven;
  accept_some(now);
  for (auto one = pending_.begin(); one != pending_.end();) {
    one = read(*one, now, proven) ? std::next(one) : pending_.erase(one);
  }
  return proven;
}

void RankListener::accept_some(TimePoint now) {
  if (now < accept_again_) return;
  accept_again_ = {};
  for (int accepted = 0; accepted < kAtOnce; ++accepted) {
    SocketAddress address{.size = sizeof(sockaddr_storage)};
    Descriptor socket(accept4(listening_.get(), address.get(), &address.size, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.is_open()) {
      const bool lacks_files = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
      if (lacks_files) {
        drop_one();
        accept_again_ = now + kWithoutFiles;
      }
      if (lacks_files || errno == EAGAIN || errno == EWOULDBLOCK) return;
      continue;  // that connection ended before it was accepted
    }
    auto [host, from] = end_of(address);
    if (is_of_other_user(socket, address)) {
      refuse(RefusalKind::kOtherUser, from);
    } else {
      add(std::move(socket), std::move(host), std::move(from), now);
    }
  }
}

void RankListener::add(Descriptor socket, std::string host, std::string from, TimePoint now) {
  const int on = 1;
  setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);  // fails harmlessly on other sockets
  if (pending_.size() >= options_.most_pending) drop_one();
  Pending one{.socket = std::move(socket),
              .host = std::move(host),
              .from = std::move(from),
              .nonce = random_bytes(kNonceBytes),
              .received = {},
              .deadline = now + options_.deadline};
  if (send_now(one.socket, make_challenge(one.nonce))) pending_.push_back(std::move(one));
}

/// Drops the oldest connection of the host with the most, so that a flood from one host does not displace others'.
void RankListener::drop_one() {
  std::map<std::string, size_t> by_host;
  for (const Pending& one : pending_) ++by_host[one.host];
  const auto most = std::ranges::max_element(by_host, {}, [](const auto& entry) { return entry.second; });
  if (most == by_host.end()) return;
  const auto oldest = std::ranges::find(pending_, most->first, &Pending::host);
  refuse(RefusalKind::kCrowded, oldest->from);
  pending_.erase(oldest);
}

/// Whether `one` is still pending.
bool RankListener::read(Pending& one, TimePoint now, std::vector<ProvenConnection>& proven) {
  const auto refused = [&](RefusalKind kind) {
    refuse(kind, one.from);
    return false;
  };
  while (one.received.size() <= kHelloBytes) {
    std::array<char, kHelloBytes + 1> bytes;
    const ssize_t got = recv(one.socket.get(), bytes.data(), bytes.size() - one.received.size(), MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    const bool has_more = got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
    if (got <= 0 && !has_more) return refused(RefusalKind::kEarlyEnd);
    if (has_more) break;
    one.received.append(bytes.data(), static_cast<size_t>(got));
    if (!may_be_hello(one.received)) return refused(RefusalKind::kForeign);
  }
  if (one.received.size() > kHelloBytes) return refused(RefusalKind::kTooLong);
  if (one.received.size() == kHelloBytes) {
    welcome(one, proven);
    return false;
  }
  return now < one.deadline || refused(RefusalKind::kSilent);
}

void RankListener::welcome(Pending& one, std::vector<ProvenConnection>& proven) {
  const JudgedHello judged = judge_hello(options_.secret, options_.size, options_.purpose, one.nonce, one.received);
  if (judged.refusal) return refuse(*judged.refusal, one.from);
  if (!send_now(one.socket, make_welcome(options_.secret, one.nonce, one.received))) return;
  if (judged.claim.purpose == ConnectionPurpose::kCheck) return;
  proven.push_back({std::move(one.socket), judged.claim.rank});
}

void RankListener::refuse(RefusalKind kind, const std::string& from) {
  const int64_t count = ++refused_[static_cast<size_t>(kind)];
  if (!options_.on_refused || !is_power_of_ten(count)) return;
  options_.on_refused(
      fmt::format("[control] rank 0: refused a connection from {}: found {}, expected a rank of this run with its "
                  "secret; the run goes on, find the program that connects to its ports{}",
                  from, to_string(kind), count == 1 ? "" : fmt::format(" ({} such so far)", count)));
}

}  // namespace lockstep::transport
