#include "transport/network.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace lockstep::transport {
namespace {

using ::testing::Contains;
using ::testing::Field;
using ::testing::HasSubstr;

IpAddress ip(const std::string& text) { return parse_ip_address(text).value(); }

const Interface kLoopback{"lo", ip("127.0.0.1"), 8, false};
const Interface kDocker{"docker0", ip("172.17.0.1"), 16, false};

/// eth0 10.1.0.x with the default route, ib0 10.9.0.x, and a container bridge of the same address everywhere.
HostNetwork host(int number) {
  return {.host = "node" + std::to_string(number),
          .interfaces = {kLoopback,
                         kDocker,
                         {"ib0", ip("10.9.0." + std::to_string(5 + number)), 24, false},
                         {"eth0", ip("10.1.0." + std::to_string(5 + number)), 24, true}}};
}

std::vector<std::string> names(const std::vector<Interface>& interfaces) {
  std::vector<std::string> found;
  for (const Interface& one : interfaces) found.push_back(one.name);
  return found;
}

TEST(ChooseNetwork, TakesTheSharedNetworkOfTheDefaultRoute) {
  const auto chosen = choose_network(std::vector{host(0), host(1), host(2)}, std::nullopt).value();
  EXPECT_EQ(names(chosen), (std::vector<std::string>{"eth0", "eth0", "eth0"}));
  EXPECT_EQ(to_text(chosen[2]), "eth0 10.1.0.7/24");
  EXPECT_EQ(subnet_of(chosen[2]), "10.1.0.0/24");
}

TEST(ChooseNetwork, PassesOverABridgeThatHasTheSameAddressOnEveryHost) {
  std::vector hosts{host(0), host(1)};
  for (HostNetwork& one : hosts)
    one.interfaces = {kLoopback, {"docker0", kDocker.address, 16, true}, one.interfaces[2]};
  EXPECT_EQ(names(choose_network(hosts, std::nullopt).value()), (std::vector<std::string>{"ib0", "ib0"}));
}

TEST(ChooseNetwork, TakesEachDefaultRouteWhenNothingIsShared) {
  std::vector hosts{host(0), host(1)};
  hosts[1].interfaces = {kLoopback, {"ens3", ip("192.168.7.2"), 24, true}};
  EXPECT_EQ(names(choose_network(hosts, std::nullopt).value()), (std::vector<std::string>{"eth0", "ens3"}));
}

TEST(ChooseNetwork, ObeysANameAnAddressOrASubnet) {
  const std::vector hosts{host(0), host(1)};
  for (const char* const wanted : {"ib0", "10.9.0.5", "10.9.0.0/24", "10.9.0.0/16"}) {
    EXPECT_EQ(names(choose_network(hosts, wanted).value()), (std::vector<std::string>{"ib0", "ib0"})) << wanted;
  }
}

TEST(ChooseNetwork, NamesTheHostThatLacksWhatIsWantedAndListsWhatItHas) {
  std::vector hosts{host(0), host(1)};
  hosts[1].interfaces = {kLoopback, {"ens3", ip("192.168.7.2"), 24, true}};
  const auto chosen = choose_network(hosts, "ib0");
  ASSERT_FALSE(chosen.has_value());
  EXPECT_EQ(chosen.error().kind, ErrorKind::kFailedPrecondition);
  EXPECT_THAT(chosen.error().message, HasSubstr("found lo 127.0.0.1/8, ens3 192.168.7.2/24 on node1, expected 'ib0'"));
  EXPECT_THAT(chosen.error().message, HasSubstr("--interface"));
  hosts[1].interfaces = {kLoopback};
  EXPECT_FALSE(choose_network(hosts, std::nullopt).has_value());
}

TEST(ChooseNetwork, TakesIpv6WhereHostsHaveNothingElseAndIpv4WhereTheyHaveBoth) {
  std::vector hosts{host(0), host(1)};
  for (int number = 0; number < 2; ++number) {
    hosts[number].interfaces = {{"lo", ip("::1"), 128, false},
                                {"ib0", ip(number == 0 ? "fd09::5" : "fd09::6"), 64, false},
                                {"eth0", ip(number == 0 ? "fd01::5" : "fd01::6"), 64, true}};
  }
  const auto chosen = choose_network(hosts, std::nullopt).value();
  EXPECT_EQ(to_text(chosen[1]), "eth0 fd01::6/64");
  EXPECT_EQ(subnet_of(chosen[1]), "fd01::/64");
  for (const char* const wanted : {"ib0", "fd09::5", "fd09::/64", "fd09::/16"}) {
    EXPECT_EQ(names(choose_network(hosts, wanted).value()), (std::vector<std::string>{"ib0", "ib0"})) << wanted;
  }
  for (int number = 0; number < 2; ++number) hosts[number].interfaces.push_back(host(number).interfaces[2]);
  EXPECT_EQ(to_text(choose_network(hosts, std::nullopt).value()[1]), "ib0 10.9.0.6/24");
}

TEST(ChooseNetwork, DoesNotTakeAddressesOfTwoFamiliesForOneNetwork) {
  std::vector hosts{host(0), host(1)};
  hosts[0].interfaces = {{"eth0", ip("10.1.0.5"), 0, true}};
  hosts[1].interfaces = {{"eth0", ip("fd01::5"), 0, true}, {"eth1", ip("10.2.0.5"), 0, false}};
  EXPECT_EQ(names(choose_network(hosts, std::nullopt).value()), (std::vector<std::string>{"eth0", "eth1"}));
  EXPECT_EQ(find_interface(hosts[1].interfaces, "0.0.0.0/0")->name, "eth1");
}

TEST(FindInterface, ComparesWholeNames) {
  EXPECT_EQ(find_interface(host(0).interfaces, "eth"), std::nullopt);
  EXPECT_EQ(find_interface(host(0).interfaces, "10.1.0.0/33"), std::nullopt);
}

TEST(Interfaces, TravelAsALine) {
  const HostNetwork one = host(3);
  EXPECT_EQ(parse_interfaces(to_line(one.interfaces)).value(), one.interfaces);
  const std::vector<Interface> ipv6 = {{"eth0", ip("fd01::5"), 64, true}};
  EXPECT_EQ(parse_interfaces(to_line(ipv6)).value(), ipv6);
  for (const char* line : {"eth0 x 24 0", "eth0 10.1.0.5 33 0", "eth0 10.1.0.5", "eth0 fd01::5 129 0"}) {
    EXPECT_EQ(parse_interfaces(line).error().kind, ErrorKind::kFailedPrecondition) << line;
  }
  EXPECT_THAT(own_interfaces(), Contains(Field(&Interface::address, kLoopback.address)));
}

/// A socket that holds a port of loopback without listening.
struct BoundPort {
  BoundPort() {
    sockaddr_in own{};
    own.sin_family = AF_INET;
    own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(bind(socket, reinterpret_cast<const sockaddr*>(&own), sizeof(own)), 0);
    socklen_t size = sizeof(own);
    getsockname(socket, reinterpret_cast<sockaddr*>(&own), &size);
    port = ntohs(own.sin_port);
  }
  ~BoundPort() { close(socket); }

  int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  uint16_t port = 0;
};

TEST(ConnectWithin, TellsALivePortFromADeadOne) {
  const Listening live = listen_on_free_port("127.0.0.1").value();
  const BoundPort dead;
  EXPECT_TRUE(connect_within("127.0.0.1", live.port, std::chrono::seconds(30)).has_value());
  const auto refused = connect_within("127.0.0.1", dead.port, std::chrono::seconds(30));
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().kind, ErrorKind::kUnavailable);
  EXPECT_THAT(refused.error().message, HasSubstr("refused"));
  EXPECT_FALSE(connect_within("no address", live.port, std::chrono::seconds(30)).has_value());
  EXPECT_FALSE(listen_on_free_port("192.0.2.1").has_value());
}

}  // namespace
}  // namespace lockstep::transport
