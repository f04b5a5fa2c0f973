#include "engine/rpc/listening.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>

namespace lockstep::rpc {
namespace {

/// Whether a server answers at the socket.
bool is_served(const sockaddr_un& address) {
  const int probe = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool served = ::connect(probe, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  ::close(probe);
  return served;
}

/// An address of a socket, with its size.
struct NumericHost {
  sockaddr_storage address = {};
  socklen_t size = 0;
};

std::optional<NumericHost> parse_host(const std::string& host) {
  addrinfo wanted{};
  wanted.ai_flags = AI_NUMERICHOST;
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), nullptr, &wanted, &found) != 0) return std::nullopt;
  NumericHost parsed{.size = found->ai_addrlen};
  std::memcpy(&parsed.address, found->ai_addr, found->ai_addrlen);
  ::freeaddrinfo(found);
  return parsed;
}

uint16_t port_of(const sockaddr_storage& address) {
  const bool is_v6 = address.ss_family == AF_INET6;
  return ntohs(is_v6 ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                     : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

}  // namespace

Error cannot_listen(const std::string& where, std::string_view found) {
  return {ErrorKind::kUnavailable,
          fmt::format("[engine/rpc] cannot listen at {}: found '{}', expected a free address; choose another one",
                      where, found)};
}

Result<int> listen_at(const std::filesystem::path& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.native().size() >= sizeof address.sun_path) {
    return cannot_listen(path, fmt::format("a path of {} bytes, where a socket has at most {}", path.native().size(),
                                           sizeof address.sun_path - 1));
  }
  std::memcpy(address.sun_path, path.c_str(), path.native().size());
  struct stat facts {};
  if (::stat(path.c_str(), &facts) == 0) {
    if (!S_ISSOCK(facts.st_mode)) return cannot_listen(path, "a file that is no socket");
    if (is_served(address)) return cannot_listen(path, "another engine");
    ::unlink(path.c_str());
  }
  const int descriptor = ::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  const auto* const target = reinterpret_cast<const sockaddr*>(&address);
  const mode_t before = ::umask(0177);
  const bool bound = descriptor >= 0 && ::bind(descriptor, target, sizeof address) == 0;
  const int code = errno;
  ::umask(before);
  if (bound && ::listen(descriptor, SOMAXCONN) == 0) return descriptor;
  if (descriptor >= 0) ::close(descriptor);
  return cannot_listen(path, std::strerror(code));
}

Result<Listener> listen_on_free_port(const std::string& host) {
  std::optional<NumericHost> target = parse_host(host);  // port 0: a free one
  if (!target) return cannot_listen(host, "no numeric address");
  const int descriptor = ::socket(target->address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  auto* const address = reinterpret_cast<sockaddr*>(&target->address);
  const bool listens = descriptor >= 0 && ::bind(descriptor, address, target->size) == 0 &&
                       ::listen(descriptor, SOMAXCONN) == 0 && ::getsockname(descriptor, address, &target->size) == 0;
  if (listens) return Listener{.descriptor = descriptor, .port = port_of(target->address)};
  const int code = errno;
  if (descriptor >= 0) ::close(descriptor);
  return cannot_listen(host, std::strerror(code));
}

}  // namespace lockstep::rpc
