// Numeric addresses of both families, as one value.
#pragma once

#include <netinet/in.h>

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep::transport {

/// IPv6 in network byte order; IPv4 as ::ffff:a.b.c.d (RFC 4291, 2.5.5.2).
struct IpAddress {
  std::array<uint8_t, 16> bytes{};

  bool is_ipv4() const;
  bool is_loopback() const;
  /// Valid on one cable alone, with a scope: fe80::/10.
  bool is_link_local() const;
  /// The bits of its family: 32 or 128.
  int bits() const { return is_ipv4() ? 32 : 128; }
  /// The address of its network: without the bits after the first `prefix` of its family, which it keeps.
  IpAddress network(int prefix) const;

  friend auto operator<=>(const IpAddress&, const IpAddress&) = default;
};

/// "10.1.0.5" or "fd00::5"; empty if it is neither.
std::optional<IpAddress> parse_ip_address(std::string_view text);
/// The address of a socket of either family; empty for other families.
std::optional<IpAddress> ip_address_of(const sockaddr& address);
std::string to_text(const IpAddress& address);

/// "10.1.0.5:80", "[fd00::5]:80", or of a name "node0:80".
std::string with_port(std::string_view host, uint16_t port);

/// The address of a socket.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  /// Of AF_INET and AF_INET6.
  uint16_t port() const;
};
/// With the family of `address`.
SocketAddress socket_address(const IpAddress& address, uint16_t port);
/// Of family AF_INET6 for both: for sockets that serve both.
SocketAddress dual_socket_address(const IpAddress& address, uint16_t port);

}  // namespace lockstep::transport
