#include "runtime/trace/prometheus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/runtime/trace/prometheus_text.h"

namespace lockstep::trace {
namespace {

TEST(Prometheus, WritesHelpTypeAndSamples) {
  const std::string text = to_prometheus({{"lockstep_steps_total",
                                           "Steps.",
                                           "counter",
                                           {{{{"rank", "0"}, {"phase", "decode"}}, 12}, {{{"rank", "1"}}, 3}}},
                                          {"lockstep_start_time_seconds", "Start.", "gauge", {{{}, 1700000000.25}}}});
  EXPECT_EQ(text,
            "# HELP lockstep_steps_total Steps.\n"
            "# TYPE lockstep_steps_total counter\n"
            "lockstep_steps_total{rank=\"0\",phase=\"decode\"} 12\n"
            "lockstep_steps_total{rank=\"1\"} 3\n"
            "# HELP lockstep_start_time_seconds Start.\n"
            "# TYPE lockstep_start_time_seconds gauge\n"
            "lockstep_start_time_seconds 1700000000.25\n");
}

TEST(Prometheus, EscapesWhatTheFormatReserves) {
  const std::string text =
      to_prometheus({{"info", "a \\ and\na line", "gauge", {{{{"path", "C:\\new \"one\"\n"}}, 1}}}});
  EXPECT_EQ(text,
            "# HELP info a \\\\ and\\na line\n# TYPE info gauge\n"
            "info{path=\"C:\\\\new \\\"one\\\"\\n\"} 1\n");
  EXPECT_EQ(read_prometheus(text).samples.size(), 1u);
}

TEST(Prometheus, WritesNumbersThatReadBack) {
  const double third = 1.0 / 3, large = 9007199254740993.0;
  const std::string text =
      to_prometheus({{"g", "Numbers.", "gauge", {{{{"n", "a"}}, third}, {{{"n", "b"}}, large}, {{{"n", "c"}}, 1e-9}}}});
  const auto samples = read_prometheus(text).samples;
  EXPECT_EQ(samples.at("g{n=\"a\"}"), third);
  EXPECT_EQ(samples.at("g{n=\"b\"}"), large);
  EXPECT_EQ(samples.at("g{n=\"c\"}"), 1e-9);
  EXPECT_THAT(to_prometheus({{"g", "N.", "gauge", {{{}, std::numeric_limits<double>::infinity()}}}}),
              ::testing::HasSubstr("g +Inf\n"));
}

TEST(Prometheus, LeavesAwayFamiliesWithoutSamples) { EXPECT_EQ(to_prometheus({{"g", "Nothing.", "gauge", {}}}), ""); }

TEST(Histogram, CountsValuesUpToEachBound) {
  Histogram histogram({0.1, 1.0});
  for (const double value : {0.05, 0.1, 0.5, 7.0}) histogram.observe(value);
  const auto samples = read_prometheus(to_prometheus({{"h_seconds", "H.", "histogram", histogram.samples()}})).samples;
  EXPECT_EQ(samples.at("h_seconds_bucket{le=\"0.1\"}"), 2);
  EXPECT_EQ(samples.at("h_seconds_bucket{le=\"1\"}"), 3);
  EXPECT_EQ(samples.at("h_seconds_bucket{le=\"+Inf\"}"), 4);
  EXPECT_EQ(samples.at("h_seconds_count"), 4);
  EXPECT_DOUBLE_EQ(samples.at("h_seconds_sum"), 7.65);
}

}  // namespace
}  // namespace lockstep::trace
