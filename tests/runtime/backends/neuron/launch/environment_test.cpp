#include "runtime/backends/neuron/launch/environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace lockstep::neuron {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr auto kStep = std::chrono::milliseconds(2500);

Result<std::vector<Variable>> variables(const RankEnvironment& rank, std::map<std::string, std::string> user = {}) {
  return variables_of(rank, [&](std::string_view name) -> std::optional<std::string> {
    const auto found = user.find(std::string(name));
    return found == user.end() ? std::nullopt : std::optional(found->second);
  });
}

std::vector<std::string> words(const std::vector<Variable>& variables) {
  std::vector<std::string> lines;
  for (const Variable& variable : variables) lines.push_back(variable.name + "=" + variable.value);
  return lines;
}

TEST(RankEnvironment, NamesCoreMeetingPlaceAndDeadline) {
  const auto found = variables({.core = 5, .root = "10.0.0.1:4711", .step_deadline = kStep}).value();
  EXPECT_THAT(words(found), ElementsAre("NEURON_RT_VISIBLE_CORES=5", "NEURON_RT_ROOT_COMM_ID=10.0.0.1:4711",
                                        "NEURON_RT_EXEC_TIMEOUT=3"));
  for (const Variable& variable : found) EXPECT_FALSE(variable.is_users) << variable.name;
}

TEST(RankEnvironment, HasNoMeetingPlaceInAGroupOfOne) {
  EXPECT_THAT(words(variables({.core = 0, .step_deadline = kStep}).value()),
              ElementsAre("NEURON_RT_VISIBLE_CORES=0", "NEURON_RT_EXEC_TIMEOUT=3"));
}

TEST(RankEnvironment, SaysTheSizeOfALogicalCore) {
  const auto found = variables({.core = 1, .step_deadline = kStep, .logical_core = 2}).value();
  EXPECT_EQ(found.back(), (Variable{"NEURON_LOGICAL_NC_CONFIG", "2", false, ""}));
}

TEST(RankEnvironment, KeepsAndSaysWhatTheUserHasSet) {
  const auto found = variables({.core = 1, .root = "10.0.0.1:4711", .step_deadline = kStep},
                               {{"NEURON_RT_EXEC_TIMEOUT", "120"}, {"NEURON_RT_VISIBLE_CORES", "0-3"}})
                         .value();
  EXPECT_EQ(found[0].value, "1");  // of the user's four
  EXPECT_THAT(found[0].note, HasSubstr("NEURON_RT_VISIBLE_CORES=0-3 was set; this rank takes core 1"));
  EXPECT_EQ(found[2].value, "120");
  EXPECT_TRUE(found[2].is_users);
  EXPECT_THAT(found[2].note, HasSubstr("NEURON_RT_EXEC_TIMEOUT=120 was set and stays"));
}

TEST(RankEnvironment, RefusesALogicalCoreOfAnotherSize) {
  const auto found = variables({.step_deadline = kStep, .logical_core = 2}, {{"NEURON_LOGICAL_NC_CONFIG", "1"}});
  ASSERT_FALSE(found.has_value());
  EXPECT_EQ(found.error().kind, ErrorKind::kFailedPrecondition);
  EXPECT_THAT(found.error().message, HasSubstr("found 1, expected 2"));
}

TEST(FreePort, IsOneThatCanBeBound) { EXPECT_GT(free_port().value(), 0); }

}  // namespace
}  // namespace lockstep::neuron
