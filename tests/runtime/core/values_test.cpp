#include <gtest/gtest.h>

#include "runtime/core/hash.h"
#include "runtime/core/ids.h"
#include "runtime/core/shape.h"

namespace lockstep {
namespace {

TEST(Shape, CountsElementsAndPrintsItself) {
  EXPECT_EQ(Shape({4, 576}).elements(), 4 * 576);
  EXPECT_EQ(Shape().elements(), 1);
  EXPECT_EQ(Shape({3, 0}).elements(), 0);
  EXPECT_EQ(to_string(TensorType{DType::kBFloat16, {4, 576}}), "bf16[4,576]");
  EXPECT_EQ(to_string(Shape()), "[]");
  EXPECT_EQ((TensorType{DType::kBFloat16, {4, 576}}.bytes()), 4 * 576 * 2);
  EXPECT_THROW(Shape({1})[1], CheckFailure);
}

TEST(StrongId, ComparesAndPrintsAsItsNumber) {
  static_assert(!std::is_convertible_v<int, RankId>);
  static_assert(!std::is_convertible_v<RankId, SlotId>);
  EXPECT_LT(RankId(1), RankId(2));
  EXPECT_EQ(fmt::format("{}", RankId(7)), "7");
}

TEST(Bytes, ArePrintedForPeople) {
  EXPECT_EQ(to_string(Bytes(12)), "12 B");
  EXPECT_EQ(to_string(Bytes(1536)), "1.50 KiB");
  EXPECT_EQ(to_string(Bytes(int64_t{3} << 40)), "3.00 TiB");
  EXPECT_EQ(Bytes(1) + Bytes(2), Bytes(3));
}

TEST(Fingerprint, DependsOnContentsOrderAndBoundaries) {
  const auto of = [](auto... parts) {
    Fingerprint hash;
    (hash.add(parts), ...);
    return hash.value();
  };
  EXPECT_EQ(of(1, 2), of(1, 2));
  EXPECT_NE(of(1, 2), of(2, 1));
  EXPECT_NE(of(std::string_view("ab"), std::string_view("c")), of(std::string_view("a"), std::string_view("bc")));
  EXPECT_NE(of(), of(0));
}

}  // namespace
}  // namespace lockstep
