#include "shards/cost/machine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::cost {
namespace {

using ::testing::HasSubstr;

constexpr double kMicro = 1e-6;
const Link kLink{.rows = {{.latency_s = 1e-6, .bytes_per_s = 1e9}}};

std::vector<Collective> all_reduce(int ranks, double bytes) {
  return std::vector<Collective>(static_cast<size_t>(ranks),
                                 {.kind = CollectiveKind::kAllReduce, .step_bytes = bytes, .result_step_bytes = bytes});
}

MachineLimits machine_with(const Link& link) { return {.rank = {1, 1}, .link = link}; }

TEST(MachineLimits, GiveARankItsOwnRateOrItsShareOfTheHosts) {
  MachineLimits machine{.rank = {10, 100}, .host = {16, 1000}, .link = kLink};
  EXPECT_EQ(machine.of_each(1), (Rates{10, 100}));
  EXPECT_EQ(machine.of_each(2), (Rates{8, 100}));
  EXPECT_EQ(machine.of_each(20), (Rates{0.8, 50}));
  machine.ranks_per_host = 2;
  EXPECT_EQ(machine.of_each(20), (Rates{8, 100}));
  machine.host = {};  // nothing is shared
  EXPECT_EQ(machine.of_each(20), (Rates{10, 100}));
}

TEST(MachineLimits, RefuseWhatCannotBe) {
  const MachineLimits good{.rank = {1, 1}, .link = kLink};
  EXPECT_TRUE(good.validate().has_value());
  MachineLimits bad = good;
  bad.rank = {};
  EXPECT_THAT(bad.validate().error().message, HasSubstr("bytes/s"));
  bad = good;
  bad.link.rows.clear();
  EXPECT_EQ(bad.validate().error().kind, ErrorKind::kInvalidArgument);
  bad = good;
  bad.link.rows[0].latency_s = -1;
  EXPECT_THAT(bad.validate().error().message, HasSubstr("latency"));
}

TEST(CollectiveSeconds, AreNoneForOneRank) {
  EXPECT_EQ(collective_seconds(machine_with(kLink), all_reduce(1, 1e6), 1), 0.0);
}

TEST(CollectiveSeconds, ReadEverythingAtOnceWhereItIsSmall) {
  // Two ranks: one round, and the other's 1000 bytes. In slices: two rounds and twice 500 bytes.
  EXPECT_DOUBLE_EQ(collective_seconds(machine_with(kLink), all_reduce(2, 1000), 1), 1 * kMicro + 1 * kMicro);
  // Five ranks: three rounds, and 4 · 100 bytes.
  EXPECT_DOUBLE_EQ(collective_seconds(machine_with(kLink), all_reduce(5, 100), 1), 3.4 * kMicro);
}

TEST(CollectiveSeconds, FinishSlicesWhereItIsLarge) {
  // Eight ranks, 1 MB: 7 MB at once, or twice 7/8 MB and three rounds more.
  EXPECT_DOUBLE_EQ(collective_seconds(machine_with(kLink), all_reduce(8, 1e6), 1),
                   6 * kMicro + 875 * kMicro + 875 * kMicro);
}

TEST(CollectiveSeconds, CountTheRowsInUse) {
  std::vector<Collective> two = all_reduce(2, 0);
  for (Collective& collective : two) collective.row_bytes = collective.result_row_bytes = 100;
  EXPECT_DOUBLE_EQ(collective_seconds(machine_with(kLink), two, 1), 1.1 * kMicro);
  EXPECT_DOUBLE_EQ(collective_seconds(machine_with(kLink), two, 10), 2 * kMicro);
}

TEST(CollectiveSeconds, ReceiveWhatTheOthersHaveInAGather) {
  std::vector<Collective> parts = {{.kind = CollectiveKind::kAllGather, .step_bytes = 100},
                                   {.kind = CollectiveKind::kAllGather, .step_bytes = 300}};
  EXPECT_DOUBLE_EQ(collective_seconds(machine_with(kLink), parts, 1), 1.3 * kMicro);  // of the rank that has least
}

TEST(CollectiveSeconds, TakeTheRowOfTheirMessage) {
  const Link link{
      .rows = {{.bytes = 1000, .latency_s = 1e-6, .bytes_per_s = 1e9}, {.latency_s = 5e-6, .bytes_per_s = 4e9}}};
  EXPECT_DOUBLE_EQ(collective_seconds(machine_with(link), all_reduce(2, 1000), 1), 2 * kMicro);
  EXPECT_DOUBLE_EQ(collective_seconds(machine_with(link), all_reduce(2, 2000), 1), 5.5 * kMicro);
}

TEST(CollectiveSeconds, ExchangeTheResultsOfHosts) {
  MachineLimits machine = machine_with(kLink);
  machine.ranks_per_host = 2;
  machine.between_hosts = {.rows = {{.latency_s = 10e-6, .bytes_per_s = 1e8}}};
  const double within = 1 * kMicro + 1 * kMicro;  // of two ranks, as above
  EXPECT_DOUBLE_EQ(collective_seconds(machine, all_reduce(2, 1000), 1), within);
  // Three hosts: two rounds, and the sums of two others.
  EXPECT_DOUBLE_EQ(collective_seconds(machine, all_reduce(6, 1000), 1), within + 20 * kMicro + 20 * kMicro);
  // A gather of the parts of a host of two and of a host of one: the latter receives two.
  const std::vector<Collective> parts(3, {.kind = CollectiveKind::kAllGather, .step_bytes = 1000});
  EXPECT_DOUBLE_EQ(collective_seconds(machine, parts, 1), within + 10 * kMicro + 20 * kMicro);
  machine.between_hosts = {};  // not known: as between ranks of a host
  EXPECT_DOUBLE_EQ(collective_seconds(machine, parts, 1), 2 * kMicro + 2 * kMicro);
}

// A measurement is an all-reduce that receives (P − 1) · bytes and an all-gather that receives (P − 1) / P · bytes.
TEST(LinkFrom, RunsThroughItsMeasurements) {
  const std::vector<LinkMeasurement> measured = {{1024, 4e-6}, {4096, 6e-6}, {16384, 30e-6}, {65536, 29e-6}};
  const Link link = link_from(measured, /*ranks=*/4);
  ASSERT_EQ(link.rows.size(), measured.size());
  for (size_t i = 0; i < measured.size(); ++i) {
    const double received = static_cast<double>(measured[i].bytes) * (3 + 3.0 / 4);
    EXPECT_EQ(link.rows[i].bytes, measured[i].bytes);
    EXPECT_GE(link.rows[i].latency_s, 0.0);
    EXPECT_NEAR(2 * 2 * link.rows[i].latency_s + received / link.rows[i].bytes_per_s, measured[i].seconds, 1e-12) << i;
  }
}

TEST(LinkFrom, TakesASingleMeasurementForLatency) {
  EXPECT_EQ(link_from({{1024, 4e-6}}, 2), (Link{.rows = {{.bytes = 1024, .latency_s = 2e-6}}}));
}

}  // namespace
}  // namespace lockstep::cost
