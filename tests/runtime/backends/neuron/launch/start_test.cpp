#include "runtime/backends/neuron/launch/start.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "tests/runtime/backends/neuron/launch/places.h"

namespace lockstep::neuron {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// One host; every rank exchanges the same text as rank 0.
class Site {
 public:
  explicit Site(int ranks) : places_(places_on(1, ranks)) {
    site.places = places_;
    site.exchange = [this](std::string_view mine) -> Result<std::vector<std::string>> {
      return std::vector<std::string>(places_.size(), std::string(mine));
    };
    site.environment = [this](std::string_view name) -> std::optional<std::string> {
      const auto found = variables.find(std::string(name));
      return found == variables.end() ? std::nullopt : std::optional(found->second);
    };
  }

  std::map<std::string, std::string> variables = {{"HOME", "/nowhere"}};
  device::RankSite site;

 private:
  std::vector<device::RankPlace> places_;
};

TEST(PlaceRanks, GivesEachRankItsCore) {
  const Site two(2);
  const device::DevicePlan plan = place_ranks(two.site, {{"neuron-cores", "4-5"}}).value();
  EXPECT_THAT(plan.devices, ElementsAre("neuron:4", "neuron:5"));
  EXPECT_THAT(plan.ordinals, ElementsAre(4, 5));
  EXPECT_THAT(plan.warnings, IsEmpty());
}

TEST(PlaceRanks, WarnsOfADegreeThatTheUserInsistsOn) {
  Site three(3);
  EXPECT_EQ(place_ranks(three.site, {}).error().kind, ErrorKind::kUnsupported);
  three.site.degrees = device::Degrees::kAny;
  EXPECT_THAT(place_ranks(three.site, {}).value().warnings, ElementsAre(HasSubstr("found 3 ranks on trn1")));
}

TEST(PlaceRanks, NeedsAProcessForEachRank) {
  Site two(2);
  two.site.form = device::RankForm::kThreads;
  EXPECT_THAT(place_ranks(two.site, {}).error().message, HasSubstr("a process for each"));
  Site one(1);
  one.site.form = device::RankForm::kThreads;
  EXPECT_TRUE(place_ranks(one.site, {}).has_value());
}

TEST(StartBackend, NamesTheVariablesThatItMayNotSet) {
  const Site one(1);
  const device::DevicePlan plan = place_ranks(one.site, {}).value();
  const auto started = start_backend(one.site, plan, {});
  ASSERT_FALSE(started.has_value());
  EXPECT_EQ(started.error().kind, ErrorKind::kFailedPrecondition);
  EXPECT_THAT(started.error().message,
              AllOf(HasSubstr("NEURON_RT_VISIBLE_CORES=0"), HasSubstr("NEURON_RT_EXEC_TIMEOUT=60")));
}

TEST(StartBackend, SetsOnlyWhatTheUserDidNot) {
  Site one(1);
  one.variables["NEURON_RT_EXEC_TIMEOUT"] = "7";
  std::map<std::string, std::string> set;
  one.site.set_environment = [&](const std::string& name, const std::string& value) { set[name] = value; };
  const device::DevicePlan plan = place_ranks(one.site, {}).value();
  const auto started = start_backend(one.site, plan, {{"neuron-runtime", "/nowhere/libnrt.so.1"}});
  EXPECT_FALSE(started.has_value());  // there is no runtime
  EXPECT_EQ(set, (std::map<std::string, std::string>{{"NEURON_RT_VISIBLE_CORES", "0"}}));
}

}  // namespace
}  // namespace lockstep::neuron
