#include "transport/network.h"

#include <fmt/ranges.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <set>
#include <sstream>

#include "runtime/core/readiness.h"

namespace lockstep::transport {
namespace {

bool is_loopback(const Interface& interface) { return interface.address.is_loopback(); }

bool share_network(const Interface& a, const Interface& b) {
  return a.prefix == b.prefix && a.address.network(a.prefix) == b.address.network(b.prefix);
}

struct Subnet {
  IpAddress address;
  int prefix = 0;
};

/// "10.1.0.0/16", "fd00::/64".
std::optional<Subnet> parse_subnet(std::string_view text) {
  const size_t slash = text.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  const std::optional<IpAddress> address = parse_ip_address(text.substr(0, slash));
  int prefix = -1;
  const std::string_view digits = text.substr(slash + 1);
  const auto [end, status] = std::from_chars(digits.data(), digits.data() + digits.size(), prefix);
  const bool is_number = status == std::errc() && end == digits.data() + digits.size();
  if (!address || !is_number || prefix < 0 || prefix > address->bits()) return std::nullopt;
  return Subnet{*address, prefix};
}

/// The interfaces of IPv4's default route.
std::set<std::string> default_routes() {
  std::set<std::string> names;
  std::ifstream table("/proc/net/route");  // Iface Destination Gateway Flags RefCnt Use Metric Mask …
  std::string line;
  while (std::getline(table, line)) {
    std::istringstream fields(line);
    std::string name, destination, skipped, mask;
    fields >> name >> destination >> skipped >> skipped >> skipped >> skipped >> skipped >> mask;
    if (destination == "00000000" && mask == "00000000") names.insert(name);
  }
  return names;
}

/// The interfaces of IPv6's default route.
std::set<std::string> default_routes_of_ipv6() {
  std::set<std::string> names;
  std::ifstream table("/proc/net/ipv6_route");  // destination, its prefix, source, its prefix, …, interface
  std::string line;
  while (std::getline(table, line)) {
    std::istringstream fields(line);
    std::string destination, prefix, field, name;
    fields >> destination >> prefix;
    while (fields >> field) name = field;
    if (destination == std::string(32, '0') && prefix == "00") names.insert(name);
  }
  return names;
}

/// The bits of a network mask.
int prefix_of(const sockaddr& mask) {
  const IpAddress bits = ip_address_of(mask).value_or(IpAddress{});
  int count = 0;
  for (const uint8_t byte : bits.bytes) count += std::popcount(byte);
  return mask.sa_family == AF_INET ? count - 16 : count;  // without those that mark IPv4
}

std::string list_of(std::span<const Interface> interfaces) {
  std::vector<std::string> texts;
  for (const Interface& interface : interfaces) texts.push_back(to_text(interface));
  return texts.empty() ? "none" : fmt::format("{}", fmt::join(texts, ", "));
}

Error no_interface(const HostNetwork& host, std::string_view expected) {
  return {ErrorKind::kFailedPrecondition,
          fmt::format("[transport] cannot choose the control plane's network: found {} on {}, expected {}; name one "
                      "with --interface NAME, ADDRESS or SUBNET",
                      list_of(host.interfaces), host.host, expected)};
}

/// The interfaces of all hosts in the network of `first`, if every host has a separate address there.
std::optional<std::vector<Interface>> all_in_network(std::span<const HostNetwork> hosts, const Interface& first) {
  std::vector<Interface> chosen;
  std::set<IpAddress> addresses;
  for (const HostNetwork& host : hosts) {
    const auto found =
        std::ranges::find_if(host.interfaces, [&](const Interface& i) { return share_network(i, first); });
    if (found == host.interfaces.end() || !addresses.insert(found->address).second) return std::nullopt;
    chosen.push_back(*found);
  }
  return chosen;
}

std::string error_text(int code) {
  return code == ECONNREFUSED ? "the connection was refused" : std::string(std::strerror(code));
}

Error unavailable(int code) { return {ErrorKind::kUnavailable, error_text(code)}; }

Result<SocketAddress> numeric_address(const std::string& text, uint16_t port) {
  if (const auto address = parse_ip_address(text)) return socket_address(*address, port);
  return Error{ErrorKind::kUnavailable, fmt::format("'{}', which is not an address", text)};
}

/// Waits for a socket that is connecting.
Result<void> wait_connected(int socket, Duration limit) {
  if (!becomes_ready(socket, POLLOUT, limit)) {
    return Error{ErrorKind::kDeadlineExceeded, fmt::format("no answer within {:.3g} s", to_seconds(limit))};
  }
  int code = 0;
  socklen_t size = sizeof(code);
  getsockopt(socket, SOL_SOCKET, SO_ERROR, &code, &size);
  if (code == 0) return ok();
  return Error{code == ETIMEDOUT ? ErrorKind::kDeadlineExceeded : ErrorKind::kUnavailable, error_text(code)};
}

}  // namespace

std::string to_text(const Interface& interface) {
  return fmt::format("{} {}/{}", interface.name, to_text(interface.address), interface.prefix);
}

std::string subnet_of(const Interface& interface) {
  return fmt::format("{}/{}", to_text(interface.address.network(interface.prefix)), interface.prefix);
}

std::vector<Interface> own_interfaces() {
  const std::set<std::string> defaults = default_routes(), defaults_of_ipv6 = default_routes_of_ipv6();
  std::vector<Interface> interfaces;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return interfaces;
  for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || one->ifa_netmask == nullptr || (one->ifa_flags & IFF_UP) == 0) continue;
    const std::optional<IpAddress> address = ip_address_of(*one->ifa_addr);
    if (!address || address->is_link_local()) continue;
    const auto& own_defaults = address->is_ipv4() ? defaults : defaults_of_ipv6;
    interfaces.push_back({.name = one->ifa_name,
                          .address = *address,
                          .prefix = prefix_of(*one->ifa_netmask),
                          .has_default = own_defaults.contains(one->ifa_name)});
  }
  freeifaddrs(list);
  return interfaces;
}

std::string loopback_address() {
  const auto is_ipv4_loopback = [](const Interface& one) { return one.address.is_ipv4() && one.address.is_loopback(); };
  return std::ranges::any_of(own_interfaces(), is_ipv4_loopback) ? "127.0.0.1" : "::1";
}

std::string to_line(std::span<const Interface> interfaces) {
  std::string line;
  for (const Interface& one : interfaces) {
    line += fmt::format("{} {} {} {} ", one.name, to_text(one.address), one.prefix, one.has_default ? 1 : 0);
  }
  return line;
}

Result<std::vector<Interface>> parse_interfaces(std::string_view line) {
  std::istringstream words{std::string(line)};
  std::vector<Interface> interfaces;
  Interface one;
  for (std::string address; words >> one.name;) {
    const bool is_read = static_cast<bool>(words >> address >> one.prefix >> one.has_default);
    const std::optional<IpAddress> parsed = parse_ip_address(address);
    if (!is_read || !parsed || one.prefix < 0 || one.prefix > parsed->bits()) {
      return Error{ErrorKind::kFailedPrecondition,
                   fmt::format("[transport] cannot read a host's network interfaces: found '{}', expected name, "
                               "address, prefix and route of each; start the same program on every rank",
                               line)};
    }
    one.address = *parsed;
    interfaces.push_back(one);
  }
  return interfaces;
}

std::optional<Interface> find_interface(std::span<const Interface> interfaces, std::string_view wanted) {
  const std::optional<IpAddress> address = parse_ip_address(wanted);
  const std::optional<Subnet> subnet = parse_subnet(wanted);
  const auto fits = [&](const Interface& one) {
    if (address) return one.address == *address;
    if (subnet) return one.address.network(subnet->prefix) == subnet->address.network(subnet->prefix);
    return one.name == wanted;
  };
  const auto found = std::ranges::find_if(interfaces, fits);
  return found == interfaces.end() ? std::nullopt : std::optional(*found);
}

std::optional<Interface> find_interface_towards(std::span<const Interface> interfaces, std::string_view wanted) {
  if (const auto found = find_interface(interfaces, wanted)) return found;
  const std::optional<IpAddress> address = parse_ip_address(wanted);
  if (!address) return std::nullopt;
  for (const Interface& interface : interfaces) {
    if (share_network(interface, {.name = "", .address = *address, .prefix = interface.prefix})) return interface;
  }
  return std::nullopt;
}

Result<std::vector<Interface>> choose_network(std::span<const HostNetwork> hosts,
                                              const std::optional<std::string>& wanted) {
  std::vector<Interface> chosen;
  if (wanted) {
    for (size_t host = 0; host < hosts.size(); ++host) {
      const std::span<const Interface> interfaces = hosts[host].interfaces;
      const auto found = host == 0 ? find_interface(interfaces, *wanted) : find_interface_towards(interfaces, *wanted);
      // A host without the coordinator's own address may still have a route to it.
      if (!found && (host == 0 || !parse_ip_address(*wanted))) return no_interface(hosts[host], "'" + *wanted + "'");
      chosen.push_back(found.value_or(Interface{}));
    }
    return chosen;
  }
  std::vector<Interface> candidates = hosts.front().interfaces;
  std::erase_if(candidates, is_loopback);
  const auto rank_of = [](const Interface& one) { return std::pair(!one.address.is_ipv4(), !one.has_default); };
  std::ranges::stable_sort(candidates, {}, rank_of);
  for (const Interface& candidate : candidates) {
    if (auto all = all_in_network(hosts, candidate)) return *std::move(all);
  }
  for (const HostNetwork& host : hosts) {  // routed networks, without a common one
    std::vector<Interface> own = host.interfaces;
    std::erase_if(own, is_loopback);
    if (own.empty()) return no_interface(host, "an interface besides loopback");
    const auto found = std::ranges::find_if(own, &Interface::has_default);
    chosen.push_back(found == own.end() ? own.front() : *found);
  }
  return chosen;
}

Result<Descriptor> connect_within(const std::string& address, uint16_t port, Duration limit) {
  LOCKSTEP_TRY(const SocketAddress target, numeric_address(address, port));
  Descriptor socket(::socket(target.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket.is_open()) return unavailable(errno);
  const int on = 1;
  setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  if (connect(socket.get(), target.get(), target.size) != 0) {
    if (errno != EINPROGRESS) return unavailable(errno);
    LOCKSTEP_TRY_VOID(wait_connected(socket.get(), limit));
  }
  return socket;
}

void end_when_unreachable(int connection, Duration limit) {
  const auto set = [&](int level, int name, int64_t value) {
    const int number = static_cast<int>(value);
    setsockopt(connection, level, name, &number, sizeof number);  // fails harmlessly on other sockets
  };
  const int64_t third = std::chrono::duration_cast<std::chrono::seconds>(limit).count() / 3;
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, third);
  set(IPPROTO_TCP, TCP_KEEPINTVL, third);
  set(IPPROTO_TCP, TCP_KEEPCNT, 2);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, std::chrono::duration_cast<std::chrono::milliseconds>(limit).count());
}

Result<Listening> listen_on_free_port(const std::string& address) {
  LOCKSTEP_TRY(SocketAddress own, numeric_address(address, /*port=*/0));
  Listening listening{.socket =
                          Descriptor(::socket(own.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0))};
  const int socket = listening.socket.get();
  const bool listens = socket >= 0 && bind(socket, own.get(), own.size) == 0 && listen(socket, SOMAXCONN) == 0 &&
                       getsockname(socket, own.get(), &own.size) == 0;
  if (!listens) return unavailable(errno);
  listening.port = own.port();
  return listening;
}

}  // namespace lockstep::transport
