#include "launcher/serve/door/api_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace lockstep::serve {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

ApiKeys keys() { return ApiKeys::parse("# of the class\nalpha\n\n  beta-2 \r\n", "keys.txt").value(); }

HttpRequest with(std::string header, std::string value) {
  HttpRequest request;
  request.headers = {{std::move(header), std::move(value)}};
  return request;
}

TEST(ApiKeys, AdmitEachKeyOfTheFileInEitherHeader) {
  for (const char* key : {"alpha", "beta-2"}) {
    EXPECT_TRUE(keys().allow(with("authorization", std::string("Bearer ") + key))) << key;
    EXPECT_TRUE(keys().allow(with("x-api-key", key))) << key;
  }
  EXPECT_TRUE(keys().are_needed());
}

TEST(ApiKeys, RefuseOtherKeysSchemesAndRequestsWithoutOne) {
  for (const char* value : {"Bearer alph", "Bearer alphaa", "Bearer ALPHA", "Bearer ", "Bearer", "Basic alpha", "alpha",
                            "Bearer # of the class", "Bearer alpha beta-2", ""}) {
    EXPECT_FALSE(keys().allow(with("authorization", value))) << value;
  }
  for (const char* value : {"", "gamma", "Bearer alpha"}) EXPECT_FALSE(keys().allow(with("x-api-key", value))) << value;
  EXPECT_FALSE(keys().allow(HttpRequest{}));
  EXPECT_FALSE(keys().allow(with("api-key", "alpha")));
}

TEST(ApiKeys, TakeTheSchemeInAnyCaseAndBlanksAroundTheKey) {
  EXPECT_TRUE(keys().allow(with("authorization", "bearer alpha")));
  EXPECT_TRUE(keys().allow(with("authorization", "BEARER   alpha ")));
}

TEST(ApiKeys, TakeAGoodKeyBesideAWrongOne) {
  HttpRequest request = with("authorization", "Bearer unused");
  request.headers.emplace_back("x-api-key", "alpha");
  EXPECT_TRUE(keys().allow(request));
}

TEST(ApiKeys, AdmitEveryRequestWithoutAFile) {
  EXPECT_FALSE(ApiKeys().are_needed());
  EXPECT_TRUE(ApiKeys().allow(HttpRequest{}));
}

TEST(ApiKeys, RefuseAFileWithoutAKey) {
  for (const char* text : {"", "\n\n", "# alpha\n"}) {
    const auto parsed = ApiKeys::parse(text, "keys.txt");
    ASSERT_FALSE(parsed.has_value()) << text;
    EXPECT_EQ(parsed.error().kind, ErrorKind::kInvalidArgument);
    EXPECT_THAT(parsed.error().message, HasSubstr("keys.txt: found no key"));
  }
}

TEST(ApiKeys, NameTheLineOfAKeyThatNoHeaderCanCarryButNotTheKey) {
  for (const char* text : {"alpha\nbe ta\n", "alpha\nb\xc3\xa9ta\n", "alpha\nbe\x01ta\n"}) {
    const auto parsed = ApiKeys::parse(text, "keys.txt");
    ASSERT_FALSE(parsed.has_value()) << text;
    EXPECT_THAT(parsed.error().message, HasSubstr("line 2"));
    EXPECT_THAT(parsed.error().message, Not(HasSubstr("ta\n")));
    EXPECT_THAT(parsed.error().message, Not(HasSubstr("alpha")));
  }
}

}  // namespace
}  // namespace lockstep::serve
