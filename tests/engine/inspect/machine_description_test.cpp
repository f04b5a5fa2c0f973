#include "engine/inspect/machine_description.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

namespace lockstep::inspect {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(ParseProbe, ReadsWhatBenchWrites) {
  const auto probe = parse_probe(R"({"probe": {"read_bytes_per_s": 5e9, "flops_per_s": 7e9, "collectives":
      [{"bytes": 1024, "seconds": 1e-6}, {"bytes": 4096, "seconds": 2e-6}]}, "world_size": 2, "threads": 3})",
                                 "F")
                         .value();
  EXPECT_EQ(probe.rates, (cost::Rates{5e9, 7e9}));
  EXPECT_EQ(probe.ranks, 2);
  EXPECT_EQ(probe.cores, 6);
  EXPECT_THAT(probe.collectives, ElementsAre(cost::LinkMeasurement{1024, 1e-6}, cost::LinkMeasurement{4096, 2e-6}));
  const auto least = parse_probe(R"({"probe": {"read_bytes_per_s": 5e9, "flops_per_s": 7e9}})", "F").value();
  EXPECT_EQ(least.cores, 1);
  EXPECT_THAT(least.collectives, IsEmpty());
}

TEST(ParseProbe, TakesCountsThatNoMachineHasForNone) {
  const auto probe = parse_probe(
      R"({"probe": {"read_bytes_per_s": 5e9, "flops_per_s": 7e9}, "world_size": 1e300, "threads": -3})", "F");
  EXPECT_EQ(probe.value().ranks, 1);
  EXPECT_EQ(probe.value().cores, 1);
}

TEST(ParseProbe, RefusesAFileThatSaysNothing) {
  for (const char* wrong :
       {"", "[]", "{", "{}", R"({"probe": 3})", R"({"probe": {"read_bytes_per_s": 5e9}})",
        R"({"probe": {"read_bytes_per_s": -5e9, "flops_per_s": 7e9}})",
        R"({"probe": {"read_bytes_per_s": "5", "flops_per_s": 7e9}})",
        R"({"probe": {"read_bytes_per_s": 5, "flops_per_s": 7, "collectives": [{"bytes": 0, "seconds": 1}]}})"}) {
    const auto parsed = parse_probe(wrong, "F.json");
    ASSERT_FALSE(parsed.has_value()) << wrong;
    EXPECT_EQ(parsed.error().kind, ErrorKind::kInvalidArgument);
    EXPECT_THAT(parsed.error().message, AllOf(HasSubstr("F.json"), HasSubstr("bench --json")));
  }
}

TEST(ParseProbe, KnowsTheProbesOfDevices) {
  const auto probe = parse_probe(R"({"probe": {"read_bytes_per_s": 6e12, "flops_per_s": 8e14, "of_devices": true},
      "world_size": 2, "threads": 3})",
                                 "F")
                         .value();
  EXPECT_TRUE(probe.of_devices);
  const auto host = parse_probe(R"({"probe": {"read_bytes_per_s": 6, "flops_per_s": 8, "of_devices": false}})", "F");
  EXPECT_FALSE(host.value().of_devices);
}

TEST(DescribeMachine, GivesEachRankTheDeviceThatWasProbed) {
  const SteadyClock clock;
  const std::filesystem::path file = std::filesystem::path(::testing::TempDir()) / "two_devices.json";
  std::ofstream(file) << R"({"probe": {"read_bytes_per_s": 6e12, "flops_per_s": 8e14, "of_devices": true,
                                       "collectives": [{"bytes": 1024, "seconds": 1e-4}]},
                             "world_size": 2, "threads": 3})";
  MachineOptions options;
  options.probe = file;
  const auto machine = describe_machine(options, probe::Precision::kBFloat16, clock).value().limits;
  EXPECT_EQ(machine.of_each(8), (cost::Rates{3e12, 4e14}));
  EXPECT_EQ(machine.link, assumed_link());  // collectives of hosts say nothing of the devices' links
}

TEST(DescribeMachine, TakesWhatIsPublishedWhereNothingWasMeasured) {
  const SteadyClock clock;
  const device::PublishedLimits published{.read_bytes_per_s = 2e12,
                                          .flops_per_s = 3e14,
                                          .devices_per_host = 8,
                                          .within_host = {4e11, 2e-6},
                                          .between_hosts = {5e10, 1e-5}};
  MachineOptions options;
  options.link_bandwidth = 300;
  const auto machine = describe_machine(options, probe::Precision::kBFloat16, clock, published).value().limits;
  EXPECT_EQ(machine.of_each(16), (cost::Rates{2e12, 3e14}));
  EXPECT_EQ(machine.ranks_per_host, 8);
  EXPECT_EQ(machine.link.rows, (std::vector<cost::LinkRow>{{.latency_s = 2e-6, .bytes_per_s = 3e11}}));
  EXPECT_EQ(machine.between_hosts.rows, (std::vector<cost::LinkRow>{{.latency_s = 1e-5, .bytes_per_s = 5e10}}));
}

TEST(DescribeMachine, DividesRecordedCoresOrGivesEachRankItsOwn) {
  const SteadyClock clock;
  MachineOptions options;
  options.probe = std::filesystem::path(LOCKSTEP_PLANS_DIR) / "two_cores.json";
  const auto divided = describe_machine(options, probe::Precision::kBFloat16, clock).value().limits;
  EXPECT_EQ(divided.of_each(4), (cost::Rates{5e9, 40e9}));
  options.rank_cores = 1;
  const auto own = describe_machine(options, probe::Precision::kBFloat16, clock).value().limits;
  EXPECT_EQ(own.of_each(4), (cost::Rates{10e9, 80e9}));
  options.host_bandwidth = 24.0;
  options.of_bandwidth = 0.5;
  const auto shared = describe_machine(options, probe::Precision::kBFloat16, clock).value().limits;
  EXPECT_EQ(shared.of_each(4), (cost::Rates{3e9, 80e9}));
}

}  // namespace
}  // namespace lockstep::inspect
