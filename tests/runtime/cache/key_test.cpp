#include "runtime/cache/key.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/cache/manifest.h"
#include "runtime/cache/misses.h"
#include "tests/runtime/cache/cases.h"

namespace lockstep::cache {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(AddressOf, DependsOnTheBackendAndOnAllFieldsButNotOnTheStep) {
  const device::ArtifactKey key = key_of();
  device::ArtifactKey other = key;
  other.step = "prefill_64";
  EXPECT_EQ(address_of(other), address_of(key));
  other.backend = "cuda";
  EXPECT_NE(address_of(other), address_of(key));
  EXPECT_NE(address_of(key_of("-O2")), address_of(key));
  EXPECT_EQ(address_of(key).size(), 64u);
}

TEST(AddressOf, TellsFieldsApartThatJoinToTheSameText) {
  const device::ArtifactKey one{.backend = "b", .step = "", .fields = {{"ab", "c"}, {"d", ""}}};
  const device::ArtifactKey two{.backend = "b", .step = "", .fields = {{"a", "bc"}, {"d", ""}}};
  const device::ArtifactKey three{.backend = "b", .step = "", .fields = {{"ab", "c1:d0:"}}};
  EXPECT_NE(address_of(one), address_of(two));
  EXPECT_NE(address_of(one), address_of(three));
}

TEST(AddressOf, IsTheSameForEverAsSharedFoldersNeed) {
  EXPECT_EQ(address_of({.backend = "neuron", .step = "decode", .fields = {{"module", "aa11"}, {"ranks", "2"}}}),
            "ad685663db434308fd7e066a4f8d77d44c616c3c1e17784ee0750c9391ad0424");
}

TEST(Differences, NameWhatIsMissingOnEitherSide) {
  device::ArtifactKey found = key_of("-O1");
  found.fields.emplace_back("extra", "1");
  device::ArtifactKey expected = key_of("-O2");
  expected.fields.emplace_back("signature", "s");
  EXPECT_THAT(differences(found, expected),
              ElementsAre(Difference{"flags", "\"-O1\"", "\"-O2\""}, Difference{"signature", "none", "\"s\""},
                          Difference{"extra", "\"1\"", "none"}));
}

TEST(Differences, LetAnUnknownFieldBeAnything) {
  EXPECT_THAT(differences(key_of("-O1", "aa", "2.16"), key_of("-O1", "aa", "")), IsEmpty());
  // An artifact with an unknown field does not match a request that names the field.
  EXPECT_FALSE(differences(key_of("-O1", "aa", ""), key_of("-O1", "aa", "2.16")).empty());
}

TEST(ToText, CutsDigestsShortButNotBelowWhereTheyDiffer) {
  const std::string a(64, 'a');
  std::string b = a;
  EXPECT_EQ(to_text({{"module", "\"" + std::string(64, 'b') + "\"", "\"" + a + "\""}}),
            "module: found bbbbbbbbbbbb…, expected aaaaaaaaaaaa…");
  b.back() = 'b';
  EXPECT_THAT(to_text({{"module", "\"" + b + "\"", "\"" + a + "\""}}), HasSubstr(b));
}

TEST(Manifest, IsTheSameAfterItsBytes) {
  Manifest manifest{.key = key_of(),
                    .artifact = {12, "00ff"},
                    .made_at = 1'790'000'000'123,
                    .took_s = 12.5,
                    .build = "0123",
                    .host = "here",
                    .failure = {}};
  EXPECT_EQ(decode_manifest(encode(manifest)).value(), manifest);
  manifest.failure = Error{ErrorKind::kUnsupported, "no sort"};
  EXPECT_EQ(decode_manifest(encode(manifest)).value(), manifest);
}

TEST(Manifest, IsRefusedWhenItsBytesAreDamaged) {
  const std::vector<std::byte> bytes = encode({.key = key_of(), .artifact = {12, "00ff"}});
  for (size_t size = 0; size < bytes.size(); size += 5) {
    EXPECT_FALSE(decode_manifest(std::span(bytes).first(size)).has_value()) << size;
  }
  for (size_t i = 0; i < bytes.size(); ++i) {  // any byte: no crash and no read out of bounds
    std::vector<std::byte> damaged = bytes;
    damaged[i] ^= std::byte{0xff};
    (void)decode_manifest(damaged).has_value();
  }
}

Manifest there(const device::ArtifactKey& key, int64_t made_at) {
  return {.key = key, .artifact = {}, .made_at = made_at};
}

TEST(Nearest, DiffersInTheFewestFieldsAndIsTheNewest) {
  const std::vector<Manifest> all{there(key_of("-O1", "bb22"), 3), there(key_of("-O2"), 1), there(key_of("-O3"), 2)};
  EXPECT_EQ(nearest(all, key_of("-O1")), &all[0]);
  EXPECT_EQ(nearest(all, key_of("-O4")), &all[2]);
  EXPECT_THAT(why_missing(all, key_of("-O4")), HasSubstr(R"(flags: found "-O3", expected "-O4")"));
}

TEST(Nearest, IsOfTheSameStep) {
  device::ArtifactKey prefill = key_of();
  prefill.step = "prefill_16";
  const std::vector<Manifest> all{there(prefill, 1)};
  EXPECT_EQ(nearest(all, key_of()), nullptr);
  EXPECT_EQ(why_missing(all, key_of()), "found no artifact of decode_64, but of prefill_16");
  EXPECT_EQ(why_missing({}, key_of()), "found no artifact of neuron");
}

}  // namespace
}  // namespace lockstep::cache
