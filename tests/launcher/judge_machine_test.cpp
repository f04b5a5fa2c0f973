// What doctor says of the machine's limits, and of time that a hypervisor took.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcher/measure/doctor/judgements.h"

namespace lockstep::launcher {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// Two ranks that read 10 GB/s alone, and 15 together.
DoctorReport measured() {
  DoctorReport report;
  for (const char* host : {"node0", "node1"}) {
    report.ranks.push_back(
        {.host = host, .device = "cpu", .cores = {0}, .read_bytes_per_s = 10e9, .flops_per_s = 1e11});
  }
  report.limits = LimitsLine{.read_bytes_per_s = 15e9, .flops_per_s = 2e11, .precision = "bf16"};
  return report;
}

TEST(JudgeMachine, ComparesTheRanksTogetherWithTheRanksAlone) {
  const Check check = judge_machine(measured());
  EXPECT_EQ(check.status, CheckStatus::kOk);
  EXPECT_THAT(check.found, HasSubstr("together read 15 GB/s and compute 200 GFLOP/s (bf16)"));
  EXPECT_THAT(check.found, HasSubstr("the slowest rank alone reads 10 GB/s, and together they reach 75 %"));
  EXPECT_THAT(check.found, Not(HasSubstr("other machines")));
}

TEST(JudgeMachine, WarnsWhenAHypervisorTookTimeAndNamesTheHost) {
  DoctorReport report = measured();
  report.ranks[1].stolen_share = 0.04;
  EXPECT_EQ(judge_machine(report).status, CheckStatus::kOk);
  report.ranks[1].stolen_share = 0.12;
  const Check check = judge_machine(report);
  EXPECT_EQ(check.status, CheckStatus::kWarning);
  EXPECT_THAT(check.found, HasSubstr("other machines took 12 % of the time of the cores of node1"));
  EXPECT_EQ(check.expected, "cores that no other virtual machine uses");
}

}  // namespace
}  // namespace lockstep::launcher
