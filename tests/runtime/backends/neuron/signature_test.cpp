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

TEST(Placement, RefusesATensorOfAnotherSize) {
  const auto placed = to_device(kPadded, 1, bytes_of({7, 8, 9}));
  ASSERT_FALSE(placed.has_value());
  EXPECT_EQ(placed.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_THAT(placed.error().message, HasSubstr("cannot place w: found 12 bytes, expected 8 (i32 as [1,2])"));
}

}  // namespace
}  // namespace lockstep::neuron
