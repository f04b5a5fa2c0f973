#include "transport/ip_address.h"

#include <gtest/gtest.h>
#include <sys/un.h>

namespace lockstep::transport {
namespace {

TEST(IpAddress, IsReadAndWrittenInBothFamilies) {
  for (const char* text : {"0.0.0.0", "10.1.0.5", "255.255.255.255", "::", "::1", "fd00:1::5", "fe80::1"}) {
    EXPECT_EQ(to_text(parse_ip_address(text).value()), text);
  }
  EXPECT_EQ(parse_ip_address("::ffff:10.1.0.5"), parse_ip_address("10.1.0.5"));
  for (const char* text :
       {"", "10.1.0", "10.1.0.256", "10.1.0.5 ", "node0", "fd00::g", "fe80::1%eth0", "10.1.0.5/24"}) {
    EXPECT_EQ(parse_ip_address(text), std::nullopt) << text;
  }
}

TEST(IpAddress, HasItsNetwork) {
  const auto network = [](const char* text, int prefix) { return to_text(parse_ip_address(text)->network(prefix)); };
  EXPECT_EQ(network("10.1.7.5", 24), "10.1.7.0");
  EXPECT_EQ(network("10.1.7.5", 22), "10.1.4.0");
  EXPECT_EQ(network("10.1.7.5", 0), "0.0.0.0");
  EXPECT_EQ(network("10.1.7.5", 32), "10.1.7.5");
  EXPECT_EQ(network("fd00:1::5", 64), "fd00:1::");
  EXPECT_EQ(network("fd00:1::5", 12), "fd00::");
  EXPECT_EQ(network("fd00:1::5", 128), "fd00:1::5");
}

TEST(IpAddress, IsOfALoopbackOrACable) {
  EXPECT_TRUE(parse_ip_address("127.5.0.1")->is_loopback());
  EXPECT_TRUE(parse_ip_address("::1")->is_loopback());
  EXPECT_FALSE(parse_ip_address("::2")->is_loopback());
  EXPECT_FALSE(parse_ip_address("10.0.0.1")->is_loopback());
  EXPECT_TRUE(parse_ip_address("fe80::1")->is_link_local());
  EXPECT_TRUE(parse_ip_address("febf::1")->is_link_local());
  EXPECT_FALSE(parse_ip_address("fec0::1")->is_link_local());
}

TEST(IpAddress, TravelsInASocketAddress) {
  for (const char* text : {"10.1.0.5", "fd00::5"}) {
    const IpAddress address = parse_ip_address(text).value();
    for (const SocketAddress& made : {socket_address(address, 8123), dual_socket_address(address, 8123)}) {
      EXPECT_EQ(ip_address_of(*made.get()), address);
      EXPECT_EQ(made.port(), 8123);
    }
  }
  EXPECT_EQ(socket_address(parse_ip_address("10.1.0.5").value(), 1).size, sizeof(sockaddr_in));
  const sockaddr_un local{.sun_family = AF_UNIX, .sun_path = {}};
  EXPECT_EQ(ip_address_of(reinterpret_cast<const sockaddr&>(local)), std::nullopt);
}

TEST(WithPort, PutsIpv6InBrackets) {
  EXPECT_EQ(with_port("10.1.0.5", 80), "10.1.0.5:80");
  EXPECT_EQ(with_port("fd00::5", 80), "[fd00::5]:80");
  EXPECT_EQ(with_port("node0", 80), "node0:80");
}

}  // namespace
}  // namespace lockstep::transport
