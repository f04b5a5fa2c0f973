#include "runtime/backends/neuron/launch/instances.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runtime/backends/neuron/launch/places.h"

namespace lockstep::neuron {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Result<std::vector<std::string>> check(Target target, int hosts, int ranks,
                                       device::Degrees degrees = device::Degrees::kDocumented) {
  return check_instances(family_of(target), places_on(hosts, ranks), degrees);
}

TEST(Instances, TakeTheDegreesThatAwsDocuments) {
  EXPECT_THAT(check(Target::kTrn1, 1, 2).value(), IsEmpty());
  EXPECT_THAT(check(Target::kTrn2, 1, 64).value(), IsEmpty());
  EXPECT_THAT(check(Target::kInf2, 1, 24).value(), IsEmpty());
  EXPECT_THAT(check(Target::kTrn1, 2, 32).value(), IsEmpty());  // two whole instances
}

TEST(Instances, RefuseOtherDegreesUnlessTheUserIsLenient) {
  const auto refused = check(Target::kTrn1, 1, 4);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().kind, ErrorKind::kUnsupported);
  EXPECT_THAT(refused.error().message, HasSubstr("found 4 ranks on trn1, expected 1, 2, 8, 16, 32"));
  EXPECT_THAT(refused.error().message, HasSubstr("--no-strict"));
  EXPECT_THAT(check(Target::kTrn1, 1, 4, device::Degrees::kAny).value(), ElementsAre(HasSubstr("found 4 ranks")));
}

TEST(Instances, OfInf2DoNotReachEachOther) {
  const auto refused = check(Target::kInf2, 2, 2, device::Degrees::kAny);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().kind, ErrorKind::kUnsupported);
  EXPECT_THAT(refused.error().message, HasSubstr("found 2 hosts on inf2, expected one"));
}

TEST(Instances, HaveSoManyCores) {
  const auto refused = check(Target::kInf2, 1, 32);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().kind, ErrorKind::kFailedPrecondition);
  EXPECT_THAT(refused.error().message, HasSubstr("found 32 ranks on node0, expected at most 24"));
}

TEST(Instances, HaveSoMuchMemoryACore) {
  constexpr int64_t kGiB = int64_t{1} << 30;
  const MemoryEstimate estimate{
      .weights = Bytes(17 * kGiB), .caches = Bytes(2 * kGiB), .slots = Bytes(0), .exchanged = Bytes(1024)};
  const auto refused = check_core_memory(family_of(Target::kTrn1), estimate);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().kind, ErrorKind::kResourceExhausted);
  EXPECT_THAT(refused.error().message, HasSubstr("17.00 GiB of weights, 2.00 GiB of states"));
  EXPECT_TRUE(check_core_memory(family_of(Target::kTrn2), estimate).has_value());  // 24 GiB
}

}  // namespace
}  // namespace lockstep::neuron
