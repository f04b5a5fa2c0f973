#include "launcher/serve/replicas/departures.h"

#include <gtest/gtest.h>

#include "launcher/serve/replicas/degree.h"

namespace lockstep::serve {
namespace {

using namespace std::chrono_literals;
using Looks = std::vector<RankPresence>;

RankPresence leaves(std::string host) { return {.host = std::move(host), .leaves = true}; }
RankPresence stays(std::string host) { return {.host = std::move(host)}; }
RankPresence silent(std::string host, double s) { return {.host = std::move(host), .silent_s = s}; }

std::optional<Departure> leaving(const Looks& before, const Looks& now) {
  Departures departures(8s);
  departures.note(before);
  departures.note(now);
  return departures.leaving();
}

std::optional<Departure> gone(const Looks& now, Duration silence = 8s) {
  Departures departures(silence);
  departures.note(now);
  return departures.gone();
}

TEST(Departures, RanksLeaveOnceTwoLooksAgree) {
  const Looks all{stays("a"), leaves("b"), leaves("b")}, some{stays("a"), leaves("b"), stays("b")};
  EXPECT_EQ(leaving(all, all), (Departure{2, {"b"}}));
  EXPECT_EQ(leaving(some, all), std::nullopt);
  EXPECT_EQ(leaving({}, all), std::nullopt);
  EXPECT_EQ(leaving({stays("a"), stays("b")}, {stays("a"), stays("b")}), std::nullopt);
}

TEST(Departures, AHostStaysInUseWithOneOfItsRanksOrWithRankZero) {
  const Looks one_of_two{stays("a"), leaves("b"), stays("b")}, beside_rank_0{stays("a"), leaves("a")};
  EXPECT_EQ(leaving(one_of_two, one_of_two), (Departure{1, {}}));
  EXPECT_EQ(leaving(beside_rank_0, beside_rank_0), (Departure{1, {}}));
}

TEST(Departures, AHostHasGoneWhenAllOfItsRanksAreSilent) {
  EXPECT_EQ(gone({stays("a"), silent("b", 4), silent("b", 7.9), silent("c", 1)}), (Departure{2, {"b"}}));
  EXPECT_EQ(gone({stays("a"), silent("b", 4), silent("c", 5)}), (Departure{2, {"b", "c"}}));
  EXPECT_EQ(gone({stays("a"), silent("b", 3.9), silent("b", 7.9)}), std::nullopt);
  EXPECT_EQ(gone({stays("a"), silent("a", 7.9)}), std::nullopt);  // a rank is frozen, its host is well
  EXPECT_EQ(gone({stays(""), silent("", 7.9)}), std::nullopt);
  EXPECT_EQ(gone({stays("a"), silent("b", 100)}, 0s), std::nullopt);
  EXPECT_EQ(gone({}), std::nullopt);
}

TEST(Departures, ForgetWhatAnEarlierEngineSaid) {
  Departures departures(8s);
  for (int look = 0; look < 2; ++look) departures.note({stays("a"), leaves("b"), silent("c", 8)});
  EXPECT_TRUE(departures.leaving() && departures.gone());
  departures.forget();
  EXPECT_FALSE(departures.leaving() || departures.gone());
}

TEST(Degree, ShrinksAndGrowsBack) {
  Degree degree(3);
  degree.shrink();
  EXPECT_EQ(degree.next().ranks, 2);
  degree.shrink();
  degree.shrink();
  EXPECT_EQ(degree.next().ranks, 1);
  EXPECT_EQ(degree.wanted(), 3);
  degree.grow();
  EXPECT_EQ(degree.next().ranks, 3);
  degree.settle({1});  // they could not be started
  EXPECT_EQ(degree.next().ranks, 1);
  EXPECT_EQ(degree.wanted(), 3);
  degree.want(2);
  EXPECT_EQ(degree.next().ranks, 2);
  EXPECT_EQ(degree.wanted(), 2);
}

TEST(Degree, DoesWithoutHostsUntilItGrowsBack) {
  Degree degree(6);
  degree.shrink({2, {"b"}});
  degree.shrink({1, {}});
  degree.shrink({2, {"c"}});
  EXPECT_EQ(degree.next(), (Crew{1, {"b", "c"}}));
  const Crew served = degree.next();
  degree.grow();
  EXPECT_EQ(degree.next(), (Crew{6, {}}));
  degree.settle(served);
  EXPECT_EQ(degree.next(), served);
  degree.want(4);
  EXPECT_EQ(degree.next(), (Crew{4, {}}));
}

}  // namespace
}  // namespace lockstep::serve
