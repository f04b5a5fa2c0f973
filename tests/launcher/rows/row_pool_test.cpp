#include "launcher/rows/row_pool.h"

#include <gtest/gtest.h>

namespace lockstep::launcher {
namespace {

using Was = RowPool::Was;

TEST(RowPool, HandsRowsOutInOrderToWhoeverAsks) {
  RowPool pool({2, 5, 7});
  EXPECT_EQ(pool.take(0), 2u);
  EXPECT_EQ(pool.take(1), 5u);
  EXPECT_EQ(pool.taken(0), 1u);
  EXPECT_EQ(pool.take(0), 7u);
  EXPECT_EQ(pool.take(0), std::nullopt);
  EXPECT_EQ(pool.taken(0), 2u);
}

TEST(RowPool, GivesTheRowsOfALostGroupToOthersFirst) {
  RowPool pool({0, 1, 2, 3, 4});
  pool.take(0);
  pool.take(1);
  pool.take(0);
  pool.hold(2);
  EXPECT_EQ(pool.lose(0), 1u);  // 0; the other was held
  EXPECT_EQ(pool.take(1), 0u);
  EXPECT_EQ(pool.take(1), 2u);
  EXPECT_EQ(pool.take(1), 3u);
}

TEST(RowPool, CountsAResultOnce) {
  RowPool pool({0, 1});
  pool.take(0);
  pool.take(0);
  pool.hold(1);
  EXPECT_EQ(pool.finish(0), Was::kOut);
  EXPECT_EQ(pool.finish(0), Was::kNeither);
  EXPECT_EQ(pool.finish(1), Was::kHeld);
}

TEST(RowPool, IsSettledWhenAllRowsAreDoneOrHeld) {
  RowPool pool({0, 1});
  pool.take(0);
  pool.take(1);
  EXPECT_FALSE(pool.is_settled());  // they may come back
  pool.finish(0);
  pool.hold(1);
  EXPECT_TRUE(pool.is_settled());
  pool.lose(1);
  EXPECT_FALSE(pool.is_settled());
}

}  // namespace
}  // namespace lockstep::launcher
