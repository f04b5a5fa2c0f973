#include "runtime/backends/neuron/hlo/wire.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/backends/neuron/hlo/builder.h"
#include "runtime/core/check.h"

namespace lockstep::neuron::hlo {
namespace {

using ::testing::HasSubstr;

Module doubled() {
  Builder b("doubled");
  const Value x = b.parameter("x", {Element::kF32, {2, 3}, {}});
  b.parameter("unused", {Element::kF32, {2}, {}});
  return std::move(b).finish({b.add(x, x), x}).module;
}

TEST(Wire, GivesTheSameBytesForTheSameModule) { EXPECT_EQ(to_bytes(doubled()), to_bytes(doubled())); }

TEST(Wire, StartsWithTheModulesNameAsItsFirstField) {
  const std::vector<std::byte> bytes = to_bytes(doubled());
  EXPECT_EQ(bytes[0], std::byte{(1 << 3) | 2});  // field 1, length-delimited
  EXPECT_EQ(bytes[1], std::byte{7});
}

TEST(Wire, RefusesWhatIsNoModule) {
  std::vector<std::byte> bytes = to_bytes(doubled());
  bytes.resize(bytes.size() / 2);
  const auto cut = from_bytes(bytes);
  ASSERT_FALSE(cut.has_value());
  EXPECT_EQ(cut.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_FALSE(from_bytes({}).has_value());
}

TEST(Wire, NamesAnInstructionWhoseOpcodeItDoesNotKnow) {
  std::vector<std::byte> bytes = to_bytes(doubled());
  const std::string_view opcode = "add";
  auto at = std::search(bytes.begin(), bytes.end(), opcode.begin(), opcode.end(),
                        [](std::byte a, char b) { return a == static_cast<std::byte>(b); });
  while (at != bytes.end() && *(at - 1) != std::byte{3}) {  // not the name "add.0"
    at = std::search(at + 1, bytes.end(), opcode.begin(), opcode.end(),
                     [](std::byte a, char b) { return a == static_cast<std::byte>(b); });
  }
  ASSERT_NE(at, bytes.end());
  *at = std::byte{'o'};
  const auto read = from_bytes(bytes);
  ASSERT_FALSE(read.has_value());
  EXPECT_THAT(read.error().message, HasSubstr("found opcode odd"));
}

TEST(Builder, DropsParametersThatNothingReadsAndCopiesThoseThatArePutOut) {
  const Module module = doubled();
  ASSERT_EQ(parameters_of(module).size(), 1u);
  EXPECT_EQ(parameters_of(module)[0]->name, "x");
  EXPECT_THAT(to_text(module), HasSubstr("copy(%x)"));
}

TEST(Builder, MakesWhatIsAskedForTwiceOnce) {
  Builder b("step");
  const Value x = b.parameter("x", {Element::kF32, {4}, {}});
  EXPECT_EQ(b.add(x, 1.0), b.add(x, 1.0));
  EXPECT_NE(b.add(x, 1.0), b.add(x, 2.0));
}

TEST(Builder, RefusesOperandsThatDoNotFit) {
  Builder b("step");
  const Value x = b.parameter("x", {Element::kF32, {4}, {}});
  const Value y = b.parameter("y", {Element::kF32, {5}, {}});
  EXPECT_THROW(b.add(x, y), CheckFailure);
  EXPECT_THROW(b.reshape(x, {5}), CheckFailure);
  EXPECT_THROW(b.dot(x, y, {.lhs_contracting = {0}, .rhs_contracting = {0}}, Element::kF32), CheckFailure);
}

}  // namespace
}  // namespace lockstep::neuron::hlo
