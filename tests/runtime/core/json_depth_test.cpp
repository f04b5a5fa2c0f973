#include "runtime/core/json_depth.h"

#include <gtest/gtest.h>

#include <string>

namespace lockstep {
namespace {

std::string nested(size_t lists) { return std::string(lists, '[') + std::string(lists, ']'); }

TEST(NestsTooDeep, CountsOpenListsAndObjects) {
  EXPECT_FALSE(nests_too_deep(""));
  EXPECT_FALSE(nests_too_deep(nested(kMostJsonDepth)));
  EXPECT_TRUE(nests_too_deep(nested(kMostJsonDepth + 1)));
  EXPECT_TRUE(nests_too_deep(nested(1000000)));
  std::string beside = "[";
  for (int i = 0; i < 1000; ++i) beside += nested(3) + ",{\"a\": []},";
  EXPECT_FALSE(nests_too_deep(beside + "0]"));
}

TEST(NestsTooDeep, LeavesOutStrings) {
  const std::string brackets(1000, '[');
  EXPECT_FALSE(nests_too_deep("[\"" + brackets + "\"]"));
  EXPECT_FALSE(nests_too_deep("[\"\\\"" + brackets + "\\\\\"]"));
  EXPECT_TRUE(nests_too_deep("[\"a\\\\\"," + brackets));
}

}  // namespace
}  // namespace lockstep
