#include "launcher/cli/suggestion.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

namespace lockstep::launcher {
namespace {

TEST(NearestName, CountsSwappedNeighboursOnce) {
  const std::vector<std::string> names = {"plan", "bench", "doctor"};
  EXPECT_EQ(nearest_name("doctro", names), "doctor");
  EXPECT_EQ(nearest_name("plna", names), "plan");
  EXPECT_EQ(nearest_name("ban", names), std::nullopt);  // half of it would be wrong
  EXPECT_EQ(nearest_name("explain", names), std::nullopt);
}

}  // namespace
}  // namespace lockstep::launcher
