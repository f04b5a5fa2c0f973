#include "runtime/probe/probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "runtime/probe/kernels.h"

namespace lockstep::probe {
namespace {

using ::testing::HasSubstr;

TimePoint at(int milliseconds) { return TimePoint(std::chrono::milliseconds(milliseconds)); }

constexpr Bytes kSmall(1 << 20);

TEST(Together, CountsFromTheFirstBeginToTheLastEnd) {
  const Sample samples[] = {{at(10), at(20), 100.0}, {at(15), at(35), 100.0}, {at(12), at(14), 50.0}};
  EXPECT_EQ(together(samples), (Sample{at(10), at(35), 250.0}));
  EXPECT_DOUBLE_EQ(rate(together(samples)), 250.0 / 0.025);
}

TEST(Together, DoesNotAddSpeedsOfThreadsThatRanOneAfterTheOther) {
  const Sample samples[] = {{at(0), at(10), 100.0}, {at(10), at(20), 100.0}};
  EXPECT_DOUBLE_EQ(rate(together(samples)), rate(samples[0]));
}

TEST(Together, OfNothingIsNothing) {
  EXPECT_EQ(together({}), Sample{});
  EXPECT_EQ(rate(together({})), 0.0);
}

TEST(BestMedian, IsTheHighestRateNotTheLargestAmount) {
  const std::vector<Figure> figures = {{"much", {at(0), at(100), 1000.0}}, {"fast", {at(0), at(1), 50.0}}};
  EXPECT_EQ(best_median(figures).kernel, "fast");
}

TEST(BestMedian, IsNotThePassThatMetTheFastestMoment) {
  const std::vector<Figure> figures = {{"a", {}}, {"b", {}}, {"a", {}}, {"b", {}}, {"a", {}}, {"b", {}}};
  EXPECT_EQ(best_median(figures, std::vector<double>{10, 11, 90, 13, 12, 14}), 3u);             // medians 12 and 13
  EXPECT_EQ(best_median(std::span(figures).first(4), std::vector<double>{10, 11, 90, 9}), 0u);  // the lower of two
}

TEST(Prober, ReadsEveryBufferWithEveryKernelOverBothPageSizes) {
  const SteadyClock clock;
  const auto prober = Prober::create({.threads = 3, .per_thread = kSmall}, clock).value();
  const auto figures = prober->read({}).value();
  EXPECT_EQ(figures.size(), 2 * read_kernels().size());
  std::set<std::string> names;
  for (const Figure& figure : figures) {
    EXPECT_EQ(figure.sample.amount, 3.0 * static_cast<double>(kSmall.value)) << figure.kernel;
    EXPECT_GT(rate(figure.sample), 0.0) << figure.kernel;
    names.insert(figure.kernel);
  }
  EXPECT_EQ(names.size(), figures.size());
}

TEST(Prober, ReadsAgainWithTheKernelsThatItIsAskedFor) {
  const SteadyClock clock;
  const auto prober = Prober::create({.threads = 1, .per_thread = kSmall}, clock).value();
  const auto all = prober->read({}).value();
  const std::vector<size_t> some = {all.size() - 1, 0};
  const auto figures = prober->read_again(some, 2, {}).value();
  ASSERT_EQ(figures.size(), 4u);
  for (const size_t i : {0, 1, 2, 3}) EXPECT_EQ(figures[i].kernel, all[some[i % 2]].kernel);
}

TEST(Prober, MultipliesWithEveryKernelOfAPrecision) {
  const SteadyClock clock;
  const auto prober = Prober::create({.threads = 2, .per_thread = kSmall}, clock).value();
  for (const Precision precision : {Precision::kFloat32, Precision::kBFloat16, Precision::kInt8}) {
    const auto figures = prober->multiply(precision, {}).value();
    EXPECT_EQ(figures.size(), kDotPasses * dot_kernels(precision).size());
    for (const Figure& figure : figures) EXPECT_GT(rate(figure.sample), 0.0) << figure.kernel;
  }
}

TEST(Prober, MultipliesAgainWithTheKernelThatItIsAskedFor) {
  const SteadyClock clock;
  const auto prober = Prober::create({.threads = 2, .per_thread = kSmall}, clock).value();
  const size_t last = dot_kernels(Precision::kFloat32).size() - 1;
  const Figure figure = prober->multiply_again(Precision::kFloat32, last, {}).value();
  EXPECT_EQ(figure.kernel, dot_kernels(Precision::kFloat32).back().name);
  EXPECT_GT(figure.sample.amount, 0);
}

TEST(Prober, LetsTheRanksMeetBeforeEveryKernel) {
  const SteadyClock clock;
  const auto prober = Prober::create({.threads = 1, .per_thread = kSmall}, clock).value();
  size_t meetings = 0;
  const Meet meet = [&]() -> Result<void> {
    ++meetings;
    return ok();
  };
  const size_t figures = prober->read(meet).value().size() + prober->multiply(Precision::kFloat32, meet).value().size();
  EXPECT_EQ(meetings, figures);
}

TEST(Prober, EndsWithTheErrorOfAFailedMeetingAndCanBeUsedAgain) {
  const SteadyClock clock;
  const auto prober = Prober::create({.threads = 3, .per_thread = kSmall}, clock).value();
  const Error lost{ErrorKind::kPeerLost, "rank 1 is gone", 1};
  EXPECT_EQ(prober->read([&]() -> Result<void> { return lost; }).error(), lost);
  EXPECT_TRUE(prober->read({}).has_value());
}

TEST(Prober, RefusesOptionsThatMakeNoSense) {
  const SteadyClock clock;
  EXPECT_THAT(Prober::create({.threads = 0, .per_thread = kSmall}, clock).error().message, HasSubstr("0 threads"));
  const auto tiny = Prober::create({.threads = 1, .per_thread = Bytes(4096)}, clock);
  EXPECT_EQ(tiny.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_THAT(tiny.error().message, HasSubstr("4.00 KiB"));
  const auto unbound = Prober::create({.threads = 2, .per_thread = kSmall, .cores = {0}}, clock);
  EXPECT_THAT(unbound.error().message, HasSubstr("1 cores for 2 threads"));
}

TEST(DefaultPerThread, ShrinksWhenManyThreadsShareTheMemory) {
  EXPECT_GE(default_per_thread(1), default_per_thread(64));
  EXPECT_GE(default_per_thread(4096).value, int64_t{16} << 20);
}

}  // namespace
}  // namespace lockstep::probe
