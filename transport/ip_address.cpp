#include "transport/ip_address.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace lockstep::transport {
namespace {

constexpr std::array<uint8_t, 12> kMapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};  // before the bytes of IPv4

}  // namespace

bool IpAddress::is_ipv4() const { return std::equal(kMapped.begin(), kMapped.end(), bytes.begin()); }

bool IpAddress::is_loopback() const {
  if (is_ipv4()) return bytes[kMapped.size()] == 127;
  IpAddress loopback;
  loopback.bytes.back() = 1;
  return *this == loopback;
}

bool IpAddress::is_link_local() const { return bytes[0] == 0xfe && (bytes[1] & 0xc0) == 0x80; }

IpAddress IpAddress::network(int prefix) const {
  const int kept = prefix + 128 - bits();
  IpAddress network;
  for (int byte = 0; byte < 16; ++byte) {
    const int here = std::clamp(kept - 8 * byte, 0, 8);
    network.bytes[byte] = static_cast<uint8_t>(bytes[byte] & (0xff << (8 - here)));
  }
  return network;
}

std::optional<IpAddress> parse_ip_address(std::string_view text) {
  const std::string whole(text);
  IpAddress address;
  if (inet_pton(AF_INET6, whole.c_str(), address.bytes.data()) == 1) return address;
  std::ranges::copy(kMapped, address.bytes.begin());
  if (inet_pton(AF_INET, whole.c_str(), address.bytes.data() + kMapped.size()) == 1) return address;
  return std::nullopt;
}

std::optional<IpAddress> ip_address_of(const sockaddr& address) {
  IpAddress found;
  if (address.sa_family == AF_INET6) {
    std::memcpy(found.bytes.data(), &reinterpret_cast<const sockaddr_in6&>(address).sin6_addr, found.bytes.size());
    return found;
  }
  if (address.sa_family != AF_INET) return std::nullopt;
  std::ranges::copy(kMapped, found.bytes.begin());
  std::memcpy(found.bytes.data() + kMapped.size(), &reinterpret_cast<const sockaddr_in&>(address).sin_addr, 4);
  return found;
}

std::string to_text(const IpAddress& address) {
  char text[INET6_ADDRSTRLEN] = "";
  const bool is_ipv4 = address.is_ipv4();
  inet_ntop(is_ipv4 ? AF_INET : AF_INET6, address.bytes.data() + (is_ipv4 ? kMapped.size() : 0), text, sizeof text);
  return text;
}

std::string with_port(std::string_view host, uint16_t port) {
  return host.find(':') == std::string_view::npos ? fmt::format("{}:{}", host, port)
                                                  : fmt::format("[{}]:{}", host, port);
}

uint16_t SocketAddress::port() const {
  return ntohs(storage.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(storage).sin6_port
                                             : reinterpret_cast<const sockaddr_in&>(storage).sin_port);
}

SocketAddress socket_address(const IpAddress& address, uint16_t port) {
  if (!address.is_ipv4()) return dual_socket_address(address, port);
  SocketAddress made{.size = sizeof(sockaddr_in)};
  auto& ipv4 = reinterpret_cast<sockaddr_in&>(made.storage);
  ipv4.sin_family = AF_INET;
  ipv4.sin_port = htons(port);
  std::memcpy(&ipv4.sin_addr, address.bytes.data() + kMapped.size(), 4);
  return made;
}

SocketAddress dual_socket_address(const IpAddress& address, uint16_t port) {
  SocketAddress made{.size = sizeof(sockaddr_in6)};
  auto& ipv6 = reinterpret_cast<sockaddr_in6&>(made.storage);
  ipv6.sin6_family = AF_INET6;
  ipv6.sin6_port = htons(port);
  std::memcpy(&ipv6.sin6_addr, address.bytes.data(), address.bytes.size());
  return made;
}

}  // namespace lockstep::transport
