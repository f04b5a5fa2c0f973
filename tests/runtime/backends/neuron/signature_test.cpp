#include "runtime/backends/neuron/signature.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

namespace lockstep::neuron {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::byte> bytes_of(const std::vector<int32_t>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

std::vector<int32_t> ints_of(const std::vector<std::byte>& bytes) {
  std::vector<int32_t> values(bytes.size() / 4);
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

/// Rank 0 holds 2 x 3 of a 2 x 3 parameter, rank 1 only 1 x 2.
const Parameter kPadded{.name = "w",
                        .role = Role::kWeight,
                        .type = {DType::kInt32, {2, 3}},
                        .placement = {{Shape{2, 3}, Shape{1, 2}}, {3, 1}}};

TEST(Placement, PadsASmallerRankWithZeros) {
  EXPECT_THAT(ints_of(to_device(kPadded, 1, bytes_of({7, 8})).value()), ElementsAre(7, 8, 0, 0, 0, 0));
  EXPECT_THAT(ints_of(to_device(kPadded, 0, bytes_of({1, 2, 3, 4, 5, 6})).value()), ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST(Placement, LaysACacheOutByPositionWithAScratchRow) {
  // [slots 2, heads 1, capacity 2, head_dim 2]: row position · 2 + slot, then scratch.
  const Parameter cache{.name = "kv.0.k",
                        .role = Role::kState,
                        .type = {DType::kInt32, {5, 2}},
                        .placement = {{Shape{2, 1, 2, 2}}, {2, 2, 4, 1}}};
  const std::vector<std::byte> host = bytes_of({1, 2, 3, 4, 5, 6, 7, 8});
  const std::vector<std::byte> device = to_device(cache, 0, host).value();
  EXPECT_THAT(ints_of(device), ElementsAre(1, 2, 5, 6, 3, 4, 7, 8, 0, 0));
  EXPECT_EQ(to_host(cache, 0, device), host);
}

std::vector<std::byte> bytes_of_floats(const std::vector<float>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

/// Leaves of 3 columns, groups of 2: rank 0 has 2 outputs of 6 columns, rank 1 one of 5.
TEST(Placement, MakesIntegersAndScalesOfOneTensor) {
  Parameter integers{.name = "w.integers",
                     .role = Role::kWeight,
                     .type = {DType::kInt8, {2, 8}},
                     .placement = {{Shape{2, 6}, Shape{1, 5}}, {}},
                     .int8 = Int8Part{.weight = "w", .leaf = 3, .width = 2}};
  Parameter scales = integers;
  scales.name = "w.scales";
  scales.type = {DType::kFloat32, {4, 2}};
  scales.int8->holds = Int8Part::Holds::kScales;
  EXPECT_EQ(scales.host_name(), "w");
  const std::vector<std::byte> host = bytes_of_floats({-127, 127, 64, 12.7f, 254});
  const std::vector<std::byte> placed = to_device(integers, 1, host).value();
  std::vector<int> found;
  for (const std::byte byte : placed) found.push_back(static_cast<int8_t>(byte));
  EXPECT_THAT(found, ElementsAre(-127, 127, 127, 0, 6, 127, 0, 0, /* a second output */ 0, 0, 0, 0, 0, 0, 0, 0));
  const std::vector<std::byte> scale_bytes = to_device(scales, 1, host).value();
  std::vector<float> numbers(8);
  std::memcpy(numbers.data(), scale_bytes.data(), scale_bytes.size());
  EXPECT_THAT(numbers, ElementsAre(1, 0, 64.0f / 127, 0, 2, 0, 0, 0));
  EXPECT_FALSE(to_device(integers, 0, host).has_value());
}

TEST(Placement, RefusesATensorOfAnotherSize) {
  const auto placed = to_device(kPadded, 1, bytes_of({7, 8, 9}));
  ASSERT_FALSE(placed.has_value());
  EXPECT_EQ(placed.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_THAT(placed.error().message, HasSubstr("cannot place w: found 12 bytes, expected 8 (i32 as [1,2])"));
}

}  // namespace
}  // namespace lockstep::neuron
