#include "transport/watch/wire.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <sstream>

#include "runtime/core/error_kinds.h"
#include "transport/handshake.h"
#include "transport/network.h"

namespace lockstep::transport::watch {
namespace {

constexpr uint32_t kLongestFrame = 1 << 20;
constexpr auto kConnectLimit = std::chrono::seconds(1);
constexpr size_t kLongestText = 1 << 16;  // of an error: the size that a socket accepts at once

struct LocalAddress {
  sockaddr_un unix_address{};
  socklen_t bytes = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&unix_address); }
};

/// An abstract name begins with a zero byte and leaves nothing in the file system.
LocalAddress local_address(const std::string& name) {
  LocalAddress address;
  address.unix_address.sun_family = AF_UNIX;
  const size_t length = std::min(name.size(), sizeof address.unix_address.sun_path - 1);
  std::memcpy(address.unix_address.sun_path + 1, name.data(), length);
  address.bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  return address;
}

bool is_of_this_user(const Descriptor& socket) {
  ucred peer{};
  socklen_t bytes = sizeof peer;
  return getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 && peer.uid == geteuid();
}

Error cannot_listen(const Endpoint& endpoint, std::string_view why) {
  return {ErrorKind::kUnavailable,
          fmt::format("[transport/watch] rank 0: cannot listen for the other ranks at {}: found '{}', expected an "
                      "address of this machine",
                      endpoint.local.empty() ? endpoint.host : endpoint.local, why)};
}

}  // namespace

std::string to_text(const Hello& hello) { return fmt::format("{} {} {}", hello.rank, hello.size, hello.host); }

std::optional<Hello> parse_hello(const std::string& text) {
  Hello hello;
  std::istringstream stream(text);
  if (!(stream >> hello.rank >> hello.size >> hello.host)) return std::nullopt;
  return hello;
}

std::string to_text(const Error& error) {
  return fmt::format("{} {} {}", static_cast<int>(error.kind), error.origin_rank.value_or(-1),
                     error.message.substr(0, kLongestText));
}

Error parse_error(const std::string& text) {
  std::istringstream stream(text);
  int number = -1, origin = -1;
  stream >> number >> origin;
  const std::optional<ErrorKind> kind = error_kind_numbered(number);
  if (!stream || !kind) {
    return {ErrorKind::kInternal, fmt::format("[transport/watch] found an error that cannot be read: '{}'", text)};
  }
  stream.get();
  std::string message(std::istreambuf_iterator<char>(stream), {});
  return {*kind, std::move(message), origin < 0 ? std::nullopt : std::optional(origin)};
}

std::string to_text(const Endpoint& endpoint) {
  return fmt::format("{} {} {}", endpoint.port, endpoint.local.empty() ? "tcp" : "local",
                     endpoint.local.empty() ? endpoint.host : endpoint.local);
}

Result<Endpoint> parse_endpoint(const std::string& text) {
  std::istringstream stream(text);
  Endpoint endpoint;
  std::string kind, name;
  if (stream >> endpoint.port >> kind >> name) {
    (kind == "local" ? endpoint.local : endpoint.host) = name;
    return endpoint;
  }
  return Error{ErrorKind::kFailedPrecondition,
               fmt::format("[transport/watch] cannot read where rank 0 listens: found '{}', expected port and host; "
                           "start the same program on every rank",
                           text)};
}

Result<Descriptor> listen_at(const Endpoint& endpoint, uint16_t& port) {
  if (endpoint.local.empty()) {
    auto listening = listen_on_free_port(endpoint.host);
    if (!listening.has_value()) return cannot_listen(endpoint, listening.error().message);
    port = listening.value().port;
    return std::move(listening.value().socket);
  }
  const LocalAddress address = local_address(endpoint.local);
  Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const bool listens =
      socket.is_open() && bind(socket.get(), address.get(), address.bytes) == 0 && listen(socket.get(), SOMAXCONN) == 0;
  if (!listens) return cannot_listen(endpoint, std::strerror(errno));
  return socket;
}

Descriptor connect_to(const Endpoint& endpoint, int rank) {
  const ConnectionClaim claim{.purpose = ConnectionPurpose::kWatch, .rank = rank};
  if (endpoint.local.empty()) {
    auto connected = connect_to_rank_0(endpoint.host, endpoint.port, endpoint.secret, claim, kConnectLimit);
    return connected.has_value() ? std::move(connected).value() : Descriptor();
  }
  const LocalAddress address = local_address(endpoint.local);
  Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const timeval second{.tv_sec = 1, .tv_usec = 0};
  setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &second, sizeof second);  // bounds connect, too
  const bool is_there = socket.is_open() && connect(socket.get(), address.get(), address.bytes) == 0 &&
                        is_of_this_user(socket) && prove(socket, endpoint.secret, claim, kConnectLimit).has_value();
  return is_there ? std::move(socket) : Descriptor();
}

bool send_frame(const Descriptor& socket, FrameKind kind, std::string_view text) {
  const auto length = static_cast<uint32_t>(text.size() + 1);
  std::string frame;
  for (int shift = 0; shift < 32; shift += 8) frame += static_cast<char>(length >> shift & 0xff);
  frame += static_cast<char>(kind);
  frame += text;
  const ssize_t sent = send(socket.get(), frame.data(), frame.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent == static_cast<ssize_t>(frame.size())) return true;
  return sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);  // a peer that does not read gets no more messages
}

bool receive(const Descriptor& socket, std::string& inbox) {
  std::array<char, 4096> bytes;
  while (true) {
    const ssize_t count = recv(socket.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (count > 0) inbox.append(bytes.data(), static_cast<size_t>(count));
    if (count == 0) return false;
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
  }
}

std::optional<Frame> take_frame(std::string& inbox) {
  constexpr size_t kHead = 4;
  if (inbox.size() < kHead + 1) return std::nullopt;
  uint32_t length = 0;
  for (size_t i = 0; i < kHead; ++i) length |= static_cast<uint32_t>(static_cast<unsigned char>(inbox[i])) << (8 * i);
  if (length == 0 || length > kLongestFrame) {
    inbox.clear();
    return std::nullopt;
  }
  if (inbox.size() < kHead + length) return std::nullopt;
  Frame frame{.kind = static_cast<FrameKind>(inbox[kHead]), .text = inbox.substr(kHead + 1, length - 1)};
  inbox.erase(0, kHead + length);
  return frame;
}

}  // namespace lockstep::transport::watch
