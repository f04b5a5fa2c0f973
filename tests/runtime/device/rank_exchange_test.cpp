#include "runtime/device/rank_exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::device {
namespace {

using ::testing::HasSubstr;

/// The view of the last rank: the texts of the earlier ranks, then its own.
Exchange after(std::vector<std::string> others) {
  return [others](std::string_view mine) -> Result<std::vector<std::string>> {
    std::vector<std::string> words = others;
    words.emplace_back(mine);
    return words;
  };
}

std::string word_of(const Error& error) {
  std::string word;
  const Exchange listen = [&](std::string_view mine) -> Result<std::vector<std::string>> {
    word = mine;
    return std::vector<std::string>{word};
  };
  EXPECT_FALSE(all_succeeded(listen, error).has_value());
  return word;
}

TEST(AllSucceeded, IsSoWhereEveryRankDid) { EXPECT_TRUE(all_succeeded(after({"+", "+"}), ok()).has_value()); }

TEST(AllSucceeded, FailsEverywhereWithTheFirstFailure) {
  const std::string failed = word_of({ErrorKind::kNotFound, "[test] no file; name one"});
  const auto heard = all_succeeded(after({"+", failed}), ok());
  ASSERT_FALSE(heard.has_value());
  EXPECT_EQ(heard.error().kind, ErrorKind::kNotFound);
  EXPECT_EQ(heard.error().message, "[test] no file; name one (on rank 1)");
  EXPECT_EQ(heard.error().origin_rank, 1);
}

TEST(AllSucceeded, LeavesARankItsOwnFailure) {
  const auto own = all_succeeded(after({word_of({ErrorKind::kNotFound, "[test] theirs"})}),
                                 Error{ErrorKind::kUnsupported, "[test] mine"});
  ASSERT_FALSE(own.has_value());
  EXPECT_EQ(own.error().message, "[test] mine");
}

}  // namespace
}  // namespace lockstep::device
