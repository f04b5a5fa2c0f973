#include "runtime/checkpoint/config_difference.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::checkpoint {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(DifferingKeys, AreNamedWithBothValuesAndTheObjectsAroundThem) {
  EXPECT_THAT(differing_keys(R"({"a": 1, "same": [1, 2], "types": ["x", "y"], "rope": {"theta": 1e4}, "more": null})",
                             R"({"rope": {"theta": 1e6}, "types": ["x", "z"], "same": [1, 2], "a": 1.5, "less": "w"})"),
              ElementsAre(DifferingKey{"a", "1", "1.5"}, DifferingKey{"less", "nothing", "\"w\""},
                          DifferingKey{"more", "null", "nothing"}, DifferingKey{"rope.theta", "10000.0", "1000000.0"},
                          DifferingKey{"types.1", "\"y\"", "\"z\""}));
}

TEST(DifferingKeys, AreNoneOfEqualFilesHoweverTheyAreWritten) {
  EXPECT_THAT(differing_keys(R"({"a": 1, "b": {}})", R"({ "b": {}, "a": 1 })"), IsEmpty());
}

TEST(DifferingKeys, OfAFileThatCannotBeReadAreAllOfTheOthers) {
  EXPECT_THAT(differing_keys("", R"({"a": 1})"), ElementsAre(DifferingKey{"a", "nothing", "1"}));
}

}  // namespace
}  // namespace lockstep::checkpoint
