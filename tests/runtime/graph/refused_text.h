// Texts that are no sound graph.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "runtime/graph/text.h"

namespace lockstep::graph {

/// Expects that `text` is refused with a message that holds `expected`.
inline void expect_refused(const std::string& text, const std::string& expected) {
  const auto parsed = parse(text);
  ASSERT_FALSE(parsed.has_value());
  EXPECT_EQ(parsed.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_THAT(parsed.error().message, ::testing::HasSubstr(expected));
}

}  // namespace lockstep::graph
