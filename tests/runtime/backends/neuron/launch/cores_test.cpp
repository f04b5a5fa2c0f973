#include "runtime/backends/neuron/launch/cores.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runtime/backends/neuron/launch/places.h"

namespace lockstep::neuron {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Result<std::vector<int>> assign(const std::vector<device::RankPlace>& places, const WantedCores& wanted) {
  return assign_cores(places, std::vector<WantedCores>(places.size(), wanted));
}

TEST(ParseCores, TakesACountAListAndNothing) {
  EXPECT_THAT(parse_cores("", "x").value(), IsEmpty());
  EXPECT_THAT(parse_cores("3", "x").value(), ElementsAre(0, 1, 2));
  EXPECT_THAT(parse_cores("8-10,2", "x").value(), ElementsAre(8, 9, 10, 2));
  EXPECT_THAT(parse_cores("3-3", "x").value(), ElementsAre(3));
}

TEST(ParseCores, NamesWhatItCannotRead) {
  for (const char* const bad : {"0", "3-1", "x", "1,1", "0-2,1", "-1", "1,,2", "99999999"}) {
    const auto cores = parse_cores(bad, "--neuron-cores");
    ASSERT_FALSE(cores.has_value()) << bad;
    EXPECT_EQ(cores.error().kind, ErrorKind::kInvalidArgument);
    EXPECT_THAT(cores.error().message, HasSubstr(std::string("--neuron-cores: found '") + bad));
  }
}

TEST(AssignCores, GivesLocalRankItsCoreOnEveryHost) {
  EXPECT_THAT(assign(places_on(2, 2), {}).value(), ElementsAre(0, 1, 0, 1));
  EXPECT_THAT(assign(places_on(2, 2), {"8-15", {}}).value(), ElementsAre(8, 9, 8, 9));
  EXPECT_THAT(assign(places_on(1, 3), {"4", {}}).value(), ElementsAre(0, 1, 2));
}

TEST(AssignCores, ChoosesFromWhatTheUserShows) {
  EXPECT_THAT(assign(places_on(1, 2), {"", "4-7"}).value(), ElementsAre(4, 5));
  EXPECT_THAT(assign(places_on(1, 2), {"2-3", "4-7"}).value(), ElementsAre(2, 3));
  const std::vector<WantedCores> each = {{"", "6"}, {"", "3"}};  // a wrapper makes one core visible to each rank
  EXPECT_THAT(assign_cores(places_on(1, 2), each).value(), ElementsAre(6, 3));
}

TEST(AssignCores, SaysWhenThereAreTooFew) {
  const auto cores = assign(places_on(1, 4), {"0-1", {}});
  ASSERT_FALSE(cores.has_value());
  EXPECT_EQ(cores.error().kind, ErrorKind::kFailedPrecondition);
  EXPECT_THAT(cores.error().message, HasSubstr("found 2 cores (0,1) for the 4 ranks on node0"));
}

TEST(AssignCores, RefusesOneCoreForTwoRanks) {
  const auto cores = assign(places_on(1, 2), {"", "5"});
  ASSERT_FALSE(cores.has_value());
  EXPECT_EQ(cores.error().kind, ErrorKind::kFailedPrecondition);
  EXPECT_THAT(cores.error().message, HasSubstr("found ranks 0, 1 on core 5 of node0"));
}

}  // namespace
}  // namespace lockstep::neuron
