#include "runtime/core/result.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

Error not_even(int number) { return {ErrorKind::kInvalidArgument, fmt::format("{} is not even", number), /*rank=*/3}; }

Result<int> half(int number) {
  if (number % 2 != 0) return not_even(number);
  return number / 2;
}

Result<int> quarter(int number) {
  LOCKSTEP_TRY(const int once, half(number));
  LOCKSTEP_TRY(const int twice, half(once));
  return twice;
}

Result<void> check_even(int number) {
  LOCKSTEP_TRY_VOID(half(number));
  return ok();
}

Result<std::unique_ptr<int>> boxed(int number) {
  LOCKSTEP_TRY_VOID(check_even(number));
  return std::make_unique<int>(number);
}

Result<int> unboxed(int number) {
  LOCKSTEP_TRY(const std::unique_ptr<int> box, boxed(number));
  return *box;
}

TEST(Result, HoldsAValueOrTheErrorThatPreventedIt) {
  EXPECT_EQ(half(8).value(), 4);
  const auto failed = half(7);
  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error(), not_even(7));
}

TEST(Result, TryReturnsTheFirstErrorUnchanged) {
  EXPECT_EQ(quarter(8).value(), 2);
  EXPECT_EQ(quarter(7).error(), not_even(7));
  EXPECT_EQ(quarter(6).error(), not_even(3));
  EXPECT_EQ(quarter(6).error().origin_rank, 3);
}

TEST(Result, TryVoidDropsTheValueAndKeepsTheError) {
  EXPECT_TRUE(check_even(2).has_value());
  EXPECT_EQ(check_even(3).error(), not_even(3));
}

TEST(Result, TryMovesValuesThatCannotBeCopied) {
  EXPECT_EQ(unboxed(4).value(), 4);
  EXPECT_EQ(unboxed(5).error(), not_even(5));
}

TEST(Result, FailsACheckWhenTheWrongHalfIsAskedFor) {
  EXPECT_THAT([] { half(7).value(); }, ThrowsMessage<CheckFailure>(HasSubstr("7 is not even")));
  EXPECT_THROW(half(8).error(), CheckFailure);
}

TEST(Check, ShowsConditionPlaceAndOperands) {
  const int row = 5;
  const int rows = 4;
  EXPECT_NO_THROW(LOCKSTEP_CHECK(rows < row, row, rows));
  EXPECT_THAT([&] { LOCKSTEP_CHECK(row < rows, row, rows); },
              ThrowsMessage<CheckFailure>(
                  AllOf(HasSubstr("result_test.cpp:"), HasSubstr("row < rows"), HasSubstr("(row, rows) = 5 4"))));
  EXPECT_THAT([&] { LOCKSTEP_CHECK(row < rows); }, ThrowsMessage<CheckFailure>(HasSubstr("row < rows")));
}

TEST(ErrorKind, HasTheDocumentedNameAndExitCode) {
  struct Row {
    ErrorKind kind;
    std::string_view name;
    int exit_code;
  };
  const Row table[] = {
      {ErrorKind::kInternal, "internal", 1},
      {ErrorKind::kInvalidArgument, "invalid_argument", 2},
      {ErrorKind::kNotFound, "not_found", 2},
      {ErrorKind::kUnsupported, "unsupported", 3},
      {ErrorKind::kFailedPrecondition, "failed_precondition", 4},
      {ErrorKind::kUnavailable, "unavailable", 4},
      {ErrorKind::kPeerLost, "peer_lost", 5},
      {ErrorKind::kDeadlineExceeded, "deadline_exceeded", 6},
      {ErrorKind::kResourceExhausted, "resource_exhausted", 7},
      {ErrorKind::kCancelled, "cancelled", 130},
  };
  for (const Row& row : table) {
    EXPECT_EQ(to_string(row.kind), row.name);
    EXPECT_EQ(exit_code(row.kind), row.exit_code) << row.name;
  }
}

}  // namespace
}  // namespace lockstep
