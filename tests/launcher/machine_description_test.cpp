#include "launcher/measure/plan/machine_description.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::launcher {
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
}  // namespace lockstep::launcher
