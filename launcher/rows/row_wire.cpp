#include "launcher/rows/row_wire.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>
#include <sstream>

namespace lockstep::launcher {
namespace {

constexpr uint32_t kMostWords = 1u << 27;  // 1 GiB
constexpr int kWaitingGroups = 128;

struct Head {
  uint32_t kind = 0;
  uint32_t words = 0;
};

bool send_all(int socket, const void* data, size_t bytes) {
  const char* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t sent = ::send(socket, at, bytes, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    at += sent;
    bytes -= static_cast<size_t>(sent);
  }
  return true;
}

bool receive_all(int socket, void* data, size_t bytes, std::optional<Duration> limit) {
  char* at = static_cast<char*>(data);
  while (bytes > 0) {
    pollfd ready{.fd = socket, .events = POLLIN, .revents = 0};
    const int milliseconds =
        limit ? static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(*limit).count()) : -1;
    const int found = ::poll(&ready, 1, milliseconds);
    if (found < 0 && errno == EINTR) continue;
    if (found <= 0) return false;
    const ssize_t got = ::recv(socket, at, bytes, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += got;
    bytes -= static_cast<size_t>(got);
  }
  return true;
}

Error cannot(std::string_view what, const RowAddress& address) {
  const std::string place =
      address.socket.empty() ? fmt::format("{}:{}", address.host, address.port) : address.socket.string();
  return {ErrorKind::kUnavailable,
          fmt::format("[launcher] rows of a job: cannot {} {}: found '{}', expected the socket of the process that "
                      "shares them out; its messages say whether it lives",
                      what, place, std::strerror(errno))};
}

Result<sockaddr_un> unix_address(const RowAddress& address) {
  sockaddr_un unix_socket{};
  unix_socket.sun_family = AF_UNIX;
  const std::string path = address.socket.string();
  if (path.size() >= sizeof unix_socket.sun_path) {
    errno = ENAMETOOLONG;
    return cannot("use", address);
  }
  std::memcpy(unix_socket.sun_path, path.data(), path.size());
  return unix_socket;
}

Result<sockaddr_in> tcp_address(const RowAddress& address) {
  sockaddr_in tcp{};
  tcp.sin_family = AF_INET;
  tcp.sin_port = htons(address.port);
  if (::inet_pton(AF_INET, address.host.c_str(), &tcp.sin_addr) == 1) return tcp;
  errno = EINVAL;
  return cannot("use", address);
}

}  // namespace

std::string to_text(const RowAddress& address) {
  return fmt::format("{} {} {}", address.host, address.port, address.secret);
}

RowAddress parse_row_address(const std::string& text) {
  RowAddress address;
  std::istringstream(text) >> address.host >> address.port >> address.secret;
  return address;
}

bool send_frame(const Descriptor& socket, RowMessage kind, std::span<const uint64_t> words) {
  const Head head{static_cast<uint32_t>(kind), static_cast<uint32_t>(words.size())};
  return send_all(socket.get(), &head, sizeof head) && send_all(socket.get(), words.data(), words.size_bytes());
}

std::optional<RowFrame> receive_frame(const Descriptor& socket, std::optional<Duration> limit) {
  Head head;
  if (!receive_all(socket.get(), &head, sizeof head, limit)) return std::nullopt;
  if (head.kind > static_cast<uint32_t>(RowMessage::kHold) || head.words > kMostWords) return std::nullopt;
  RowFrame frame{.kind = static_cast<RowMessage>(head.kind), .words = std::vector<uint64_t>(head.words)};
  if (!receive_all(socket.get(), frame.words.data(), frame.bytes().size(), limit)) return std::nullopt;
  return frame;
}

Result<Descriptor> listen_for_groups(RowAddress& address) {
  const bool is_unix = !address.socket.empty();
  Descriptor socket(::socket(is_unix ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket.is_open()) return cannot("make", address);
  if (is_unix) {
    LOCKSTEP_TRY(const sockaddr_un own, unix_address(address));
    if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&own), sizeof own) != 0) return cannot("make", address);
  } else {
    LOCKSTEP_TRY(sockaddr_in own, tcp_address(address));
    socklen_t size = sizeof own;
    auto* const any = reinterpret_cast<sockaddr*>(&own);
    if (::bind(socket.get(), any, size) != 0 || ::getsockname(socket.get(), any, &size) != 0) {
      return cannot("make", address);
    }
    address.port = ntohs(own.sin_port);
  }
  if (::listen(socket.get(), kWaitingGroups) != 0) return cannot("listen at", address);
  return socket;
}

Result<Descriptor> connect_to_rows(const RowAddress& address) {
  const bool is_unix = !address.socket.empty();
  Descriptor socket(::socket(is_unix ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket.is_open()) return cannot("reach", address);
  int connected = -1;
  if (is_unix) {
    LOCKSTEP_TRY(const sockaddr_un to, unix_address(address));
    connected = ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to);
  } else {
    LOCKSTEP_TRY(const sockaddr_in to, tcp_address(address));
    connected = ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to);
    const int on = 1;  // a question is small, and its answer is waited for
    ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }
  if (connected != 0) return cannot("reach", address);
  return socket;
}

std::vector<uint64_t> words_of(std::string_view text) {
  std::vector<uint64_t> words(1 + (text.size() + sizeof(uint64_t) - 1) / sizeof(uint64_t));
  words[0] = text.size();
  std::memcpy(words.data() + 1, text.data(), text.size());
  return words;
}

std::string text_of(std::span<const uint64_t> words) {
  if (words.empty() || words[0] > (words.size() - 1) * sizeof(uint64_t)) return {};
  return {reinterpret_cast<const char*>(words.data() + 1), words[0]};
}

}  // namespace lockstep::launcher
