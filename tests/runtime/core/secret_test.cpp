// Tests of secrets against published values.
#include "runtime/core/secret.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(Hmac, HasTheValuesOfRfc4231) {
  const std::string proof = hmac_sha256("Jefe", "what do ya want for nothing?");
  EXPECT_EQ(proof.size(), 32U);
  EXPECT_EQ(proof.substr(0, 4), "\x5b\xdc\xc1\x46");
  EXPECT_EQ(proof.substr(28), "\x64\xec\x38\x43");
  EXPECT_NE(hmac_sha256("jefe", "what do ya want for nothing?"), proof);
}

TEST(Secrets, DifferEachTime) {
  EXPECT_THAT(random_secret(), ::testing::MatchesRegex("[0-9a-f]+"));
  EXPECT_EQ(random_secret().size(), 64U);
  EXPECT_NE(random_secret(), random_secret());
  EXPECT_NE(random_bytes(32), random_bytes(32));
}

TEST(Secrets, AreEqualWholeOnly) {
  EXPECT_TRUE(is_equal_secret("secret", "secret"));
  EXPECT_TRUE(is_equal_secret("", ""));
  for (const char* other : {"", "secre", "secretS", "Secret", "secreT"}) EXPECT_FALSE(is_equal_secret(other, "secret"));
}

}  // namespace
}  // namespace lockstep
