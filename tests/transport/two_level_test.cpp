// Tests of the two-level communicator beyond the conformance suite: the place of each addition, and the reported
// missing ranks.
#include "transport/two_level/two_level.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/conformance/communicator/waits.h"
#include "transport/subgroup.h"

namespace lockstep::transport::two_level {
namespace {

using conformance::Ends;
using device::Stream;
using ::testing::HasSubstr;

/// Rank r runs on host `nodes[r]`, which is called by a letter.
std::vector<RankPlace> places_of(const std::vector<int>& nodes) {
  std::vector<RankPlace> places;
  for (const int node : nodes) {
    places.push_back(
        {.rank = static_cast<int>(places.size()), .host = std::string(1, static_cast<char>('a' + node)), .node = node});
  }
  return places;
}

Hosts hosts_of(const std::vector<int>& nodes) { return hosts_from(places_of(nodes)); }

/// A part whose operations do well, except one that ends at its deadline.
class ScriptedPart final : public HostCommunicator {
 public:
  ScriptedPart(int rank, int size) : rank_(rank), size_(size) {}

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string name() const override { return "scripted"; }
  Result<void> all_reduce(const device::TreeSum&, std::span<const float>, std::span<float>, Stream) override {
    return next();
  }
  Result<void> all_gather(std::span<const std::byte>, std::span<const int64_t>, std::span<std::byte>, Stream) override {
    return next();
  }
  Result<void> broadcast(std::span<std::byte>, int, Stream) override { return next(); }
  Result<void> barrier(Stream) override { return next(); }
  Result<void> finish_sum(const TreeFinish&, std::span<const float>, std::span<float>) override { return next(); }
  Result<void> reduce_slices(const SliceSums&, std::span<const float>, size_t, std::span<float>) override {
    return next();
  }
  std::optional<std::span<const int>> missing() const override {
    if (operations_ < fails_at) return std::nullopt;
    return std::span<const int>(missing_);
  }
  device::OperationMark last_operation() const override { return {}; }

  int fails_at = 1000;        // this operation, counted from 1
  std::vector<int> missing_;  // then

 private:
  Result<void> next() {
    if (++operations_ < fails_at) return ok();
    return Error{ErrorKind::kDeadlineExceeded, "[test] in the part's own words"};
  }

  int rank_;
  int size_;
  int operations_ = 0;
};

/// The error of rank 1 of hosts a: 0 1 4, b: 2 3 for a barrier whose parts fail.
std::string barrier_error(int rank, bool within_fails, int at, std::vector<int> missing) {
  const Hosts hosts = hosts_of({0, 0, 1, 1, 0});
  const Ends ends;
  auto within = std::make_unique<ScriptedPart>(hosts.local_of[rank], static_cast<int>(hosts.of(rank).ranks.size()));
  auto between = std::make_unique<ScriptedPart>(hosts.host_of[rank], 2);
  ScriptedPart& failing = within_fails ? *within : *between;
  failing.fails_at = at;
  failing.missing_ = std::move(missing);
  const auto communicator =
      make_communicator(hosts, rank, {.within = std::move(within), .between = std::move(between)}, ends.wait);
  const Result<void> done = communicator->barrier(Stream::host());
  EXPECT_EQ(communicator->barrier(Stream::host()).error(), done.error());
  EXPECT_EQ(done.error().kind, ErrorKind::kDeadlineExceeded);
  EXPECT_EQ(done.error().origin_rank, rank);
  return done.error().message;
}

TEST(TwoLevel, NamesRanksOfItsOwnHostOneByOne) {
  EXPECT_THAT(barrier_error(0, true, 1, {1, 2}),
              HasSubstr("[transport/two_level] rank 0: barrier (operation 1) was given up: found ranks 1, 4 missing "
                        "(host a)"));
}

TEST(TwoLevel, NamesAnotherHostWithAllItsRanks) {
  EXPECT_THAT(barrier_error(0, false, 1, {1}), HasSubstr("found ranks 2, 3 missing (host b)"));
}

TEST(TwoLevel, KnowsThatItsNeighbourMayWaitForAnotherHost) {
  EXPECT_THAT(barrier_error(1, true, 2, {0}), HasSubstr("found ranks 0, 2, 3 missing (hosts a, b)"));
}

TEST(TwoLevel, DoesNotSuspectOtherHostsForARankWithoutARail) {
  EXPECT_THAT(barrier_error(1, true, 2, {2}), HasSubstr("found rank 4 missing (host a)"));
}

TEST(Subgroup, IsAGroupOfItsRanksThatKeepTheirNumbersInTheWorld) {
  const auto places = std::vector{RankPlace{.rank = 2, .host = "b"}, RankPlace{.rank = 3, .host = "b"}};
  const auto group = make_subgroup(std::make_unique<ScriptedPart>(1, 2), places);
  EXPECT_EQ(group->rank(), 1);
  EXPECT_EQ(group->size(), 2);
  EXPECT_EQ(group->places().value(), places);
  EXPECT_TRUE(group->barrier().has_value());
}

}  // namespace
}  // namespace lockstep::transport::two_level
