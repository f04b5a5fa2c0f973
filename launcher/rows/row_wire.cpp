#include "launcher/rows/row_wire.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>
#include <sstream>
#include <utility>

#include "runtime/core/readiness.h"
#include "transport/handshake.h"
#include "transport/network.h"

namespace lockstep::launcher {
namespace {

constexpr uint32_t kMostWords = 1u << 27;  // 1 GiB
constexpr int kWaitingGroups = 128;
constexpr auto kConnectLimit = std::chrono::seconds(30);

struct Head {
  uint32_t kind = 0;
  uint32_t words = 0;
};

bool send_all(int socket, const void* data, size_t bytes) {
  const char* at = static_cast<const char*>(data);
  while (bytes > 0) {
    if (!becomes_ready(socket, POLLOUT, kSilence)) return false;
    const ssize_t sent = ::send(socket, at, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && is_temporary(errno)) continue;
    if (sent <= 0) return false;
    at += sent;
    bytes -= static_cast<size_t>(sent);
  }
  return true;
}

bool receive_all(int socket, void* data, size_t bytes, std::optional<Duration> limit) {
  char* at = static_cast<char*>(data);
  while (bytes > 0) {
    if (!becomes_ready(socket, POLLIN, limit.value_or(Duration::max()))) return false;
    const ssize_t got = ::recv(socket, at, bytes, MSG_DONTWAIT);
    if (got < 0 && is_temporary(errno)) continue;
    if (got <= 0) return false;
    at += got;
    bytes -= static_cast<size_t>(got);
  }
  return true;
}

Error cannot(std::string_view what, const RowAddress& address, std::string_view why) {
  const std::string place =
      address.socket.empty() ? transport::with_port(address.host, address.port) : address.socket.string();
  return {ErrorKind::kUnavailable,
          fmt::format("[launcher] rows of a job: cannot {} {}: found '{}', expected the socket of the process that "
                      "shares them out; its messages say whether it lives",
                      what, place, why)};
}

Result<sockaddr_un> unix_address(const RowAddress& address) {
  sockaddr_un unix_socket{};
  unix_socket.sun_family = AF_UNIX;
  const std::string path = address.socket.string();
  if (path.size() >= sizeof unix_socket.sun_path) {
    return cannot("use", address, std::strerror(ENAMETOOLONG));
  }
  std::memcpy(unix_socket.sun_path, path.data(), path.size());
  return unix_socket;
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

std::array<uint64_t, 4> to_words(const RowSetup& setup) {
  return {static_cast<uint64_t>(setup.capacity), static_cast<uint64_t>(setup.unix_time), setup.rows, setup.job};
}

std::optional<RowSetup> parse_row_setup(std::span<const uint64_t> words) {
  if (words.size() != to_words({}).size()) return std::nullopt;
  return RowSetup{.capacity = static_cast<int64_t>(words[0]),
                  .unix_time = static_cast<int64_t>(words[1]),
                  .rows = words[2],
                  .job = words[3]};
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
  if (address.socket.empty()) {
    auto listening = transport::listen_on_free_port(address.host);
    if (!listening.has_value()) return cannot("listen at", address, listening.error().message);
    address.port = listening.value().port;
    return std::move(listening.value().socket);
  }
  Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  LOCKSTEP_TRY(const sockaddr_un own, unix_address(address));
  const bool listens = socket.is_open() &&
                       ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&own), sizeof own) == 0 &&
                       ::listen(socket.get(), kWaitingGroups) == 0;
  if (!listens) return cannot("make", address, std::strerror(errno));
  return socket;
}

Result<Descriptor> connect_to_rows(const RowAddress& address, size_t group) {
  if (address.socket.empty()) {
    auto connected =
        transport::connect_to_rank_0(address.host, address.port, address.secret,
                                     {transport::ConnectionPurpose::kRows, static_cast<int32_t>(group)}, kConnectLimit);
    if (!connected.has_value()) return cannot("reach", address, connected.error().message);
    return std::move(connected).value();
  }
  Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  LOCKSTEP_TRY(const sockaddr_un to, unix_address(address));
  const bool is_there =
      socket.is_open() && ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0;
  if (!is_there) return cannot("reach", address, std::strerror(errno));
  return socket;
}

}  // namespace lockstep::launcher
