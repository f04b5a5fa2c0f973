#include "runtime/core/digest.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace lockstep {
namespace {

// The examples of FIPS 180-4 that NIST publishes.
constexpr const char* kOfNothing = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
constexpr const char* kOfAbc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
constexpr const char* kOfTwoBlocks = "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1";
constexpr const char* kOfAMillionAs = "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0";

TEST(Sha256, AgreesWithThePublishedExamples) {
  EXPECT_EQ(sha256_hex(""), kOfNothing);
  EXPECT_EQ(sha256_hex("abc"), kOfAbc);
  EXPECT_EQ(sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"), kOfTwoBlocks);
  EXPECT_EQ(sha256_hex(std::string(1'000'000, 'a')), kOfAMillionAs);
}

TEST(Sha256, DoesNotDependOnThePieces) {
  Sha256 hash;
  for (int i = 0; i < 1000; ++i) hash.add(std::string(i % 3 == 0 ? 2000 : 500, 'a'));
  EXPECT_EQ(hash.hex(), sha256_hex(std::string(334 * 2000 + 666 * 500, 'a')));
}

TEST(Sha256, OfAFileIsThatOfItsBytes) {
  const auto path = std::filesystem::path(::testing::TempDir()) / "lockstep-digest-test";
  std::ofstream(path, std::ios::binary) << std::string(3'000'001, 'x');
  EXPECT_EQ(digest_of_file(path).value(), (FileDigest{3'000'001, sha256_hex(std::string(3'000'001, 'x'))}));
  std::filesystem::remove(path);
  EXPECT_EQ(digest_of_file(path).error().kind, ErrorKind::kNotFound);
}

}  // namespace
}  // namespace lockstep
