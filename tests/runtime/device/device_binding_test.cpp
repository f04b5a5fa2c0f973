#include "runtime/device/device_binding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::device {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kVariable = "CUDA_VISIBLE_DEVICES";

/// Two ranks on each of two hosts.
std::vector<RankPlace> four_ranks() {
  std::vector<RankPlace> places;
  for (int rank = 0; rank < 4; ++rank) {
    const int node = rank / 2;
    places.push_back({.rank = rank,
                      .host = "node" + std::to_string(node),
                      .local_rank = rank % 2,
                      .local_size = 2,
                      .cores = {},
                      .node = node});
  }
  return places;
}

TEST(BindDevices, CountsByTheLocalRankWhereAllAreVisible) {
  const std::vector<RankDevices> all(4, {{"a", "b", "c"}});
  EXPECT_THAT(bind_devices(four_ranks(), all, DeviceSharing::kRefuse, kVariable).value(), ElementsAre(0, 1, 0, 1));
}

TEST(BindDevices, TakesOrdinalZeroWhereATaskSeesItsOwnOnly) {
  const std::vector<RankDevices> own{{{"GPU-a"}}, {{"GPU-b"}}, {{"GPU-c"}}, {{"GPU-d"}}};
  EXPECT_THAT(bind_devices(four_ranks(), own, DeviceSharing::kRefuse, kVariable).value(), ElementsAre(0, 0, 0, 0));
}

TEST(BindDevices, RefusesTwoRanksOnOneDeviceUnlessTold) {
  const std::vector<RankDevices> one(4, {{"0"}});
  const auto refused = bind_devices(four_ranks(), one, DeviceSharing::kRefuse, kVariable);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().kind, ErrorKind::kFailedPrecondition);
  EXPECT_THAT(refused.error().message, HasSubstr("ranks 0, 1 on node0 would share device 0"));
  EXPECT_THAT(refused.error().message, HasSubstr(kVariable));
  EXPECT_THAT(bind_devices(four_ranks(), one, DeviceSharing::kAllow, kVariable).value(), ElementsAre(0, 0, 0, 0));
}

TEST(BindDevices, TellsDevicesOfDifferentHostsApart) {
  std::vector<RankPlace> places = four_ranks();
  places = {places[0], places[2]};
  const std::vector<RankDevices> one(2, {{"0"}});
  EXPECT_TRUE(bind_devices(places, one, DeviceSharing::kRefuse, kVariable).has_value());
}

TEST(BindDevices, NamesARankThatSeesNone) {
  std::vector<RankDevices> devices(4, {{"a", "b"}});
  devices[2].identities.clear();
  const auto refused = bind_devices(four_ranks(), devices, DeviceSharing::kRefuse, kVariable);
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().message, HasSubstr("rank 2 on node1 sees no device"));
}

}  // namespace
}  // namespace lockstep::device
