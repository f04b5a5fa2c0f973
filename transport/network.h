// The choice of each host's address for the control plane between hosts.
//
//   node0   lo 127.0.0.1/8   docker0 172.17.0.1/16   eth0 10.1.0.5/24 (default route)   ib0 10.9.0.5/24
//   node1   lo 127.0.0.1/8   docker0 172.17.0.1/16   eth0 10.1.0.6/24 (default route)   ib0 10.9.0.6/24
//                            same address: unusable          ▲ chosen: one network, the default route's
//
// Every rank computes the same choice from the interfaces of all hosts, without trying connections. IPv4 before IPv6.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/core/clock.h"
#include "runtime/core/descriptor.h"
#include "runtime/core/result.h"
#include "transport/ip_address.h"

namespace lockstep::transport {

/// One address of a host.
struct Interface {
  std::string name;  // "eth0"
  IpAddress address;
  int prefix = 0;            // bits of the network, in the address's family
  bool has_default = false;  // the default route leaves by it

  friend bool operator==(const Interface&, const Interface&) = default;
};

/// "eth0 10.1.0.5/24".
std::string to_text(const Interface& interface);
/// Its network: "10.1.0.0/24".
std::string subnet_of(const Interface& interface);

/// The addresses of this host's interfaces that are up, loopback too, in the system's order; none that are link-local.
std::vector<Interface> own_interfaces();

/// The loopback address of this host: 127.0.0.1, or ::1 where it has IPv6 only.
std::string loopback_address();

/// One line that `parse_interfaces` reads.
std::string to_line(std::span<const Interface> interfaces);
/// Fails with `kFailedPrecondition` on a line that `to_line` did not make.
Result<std::vector<Interface>> parse_interfaces(std::string_view line);

/// The interface of one host that `wanted` means: its name, its address or a network that it is in ("10.1.0.0/16").
/// Empty when there is none. Pure.
std::optional<Interface> find_interface(std::span<const Interface> interfaces, std::string_view wanted);

/// The same on a host other than the coordinator's: an address also means the network that it is in. Pure.
std::optional<Interface> find_interface_towards(std::span<const Interface> interfaces, std::string_view wanted);

/// The interfaces of a host.
struct HostNetwork {
  std::string host;
  std::vector<Interface> interfaces;
};

/// The interface of each host by which the hosts reach each other; the first host is the coordinator's. `wanted` as
/// above: on the other hosts an address means the network that it is in. Without it, in this order: a network that
/// every host has an address of its own in, IPv4 before IPv6 and the default route's before others; each host's default
/// route; any but loopback. A nameless interface: that host has only its routes towards the wanted address. Pure. Fails
/// with `kFailedPrecondition`, listing the interfaces, when none of a host fits.
Result<std::vector<Interface>> choose_network(std::span<const HostNetwork> hosts,
                                              const std::optional<std::string>& wanted);

/// A TCP connection to the numeric `address`, without blocking and without delay of small messages. Fails with
/// `kUnavailable` (refused, no route) or, after `limit`, with `kDeadlineExceeded`; the message is the bare reason.
/// @blocking
Result<Descriptor> connect_within(const std::string& address, uint16_t port, Duration limit);

/// From now on the system asks the other host of a TCP connection for signs of life while neither end sends. When the
/// host answers nothing for `limit` (3 s at least), because it has no power or is cut off, reads and writes fail with
/// `ETIMEDOUT`.
void end_when_unreachable(int connection, Duration limit);

/// A socket that listens, without blocking.
struct Listening {
  Descriptor socket;
  uint16_t port = 0;
};

/// Listens at a free port of the numeric `address`. Fails with `kUnavailable`; the message is the bare reason.
Result<Listening> listen_on_free_port(const std::string& address);

}  // namespace lockstep::transport
