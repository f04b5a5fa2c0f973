#include "runtime/journal/row_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::journal {
namespace {

using ::testing::HasSubstr;

const JobDescription kJob{.rows = 3, .facts = {{"rows", "ab"}, {"--dtype", "float32"}}, .notes = {{"capacity", "64"}}};

TEST(RowRecord, GivesBackWhatAJobIs) {
  const Record record = decode(encode(kJob)).value();
  EXPECT_EQ(std::get<JobDescription>(record), kJob);
  EXPECT_EQ(kJob.note("capacity"), "64");
  EXPECT_EQ(kJob.note("other"), std::nullopt);
}

TEST(RowRecord, GivesBackRowsWithAllTheirParts) {
  const std::vector<RowResult> rows = {
      {.row = 7,
       .answers = {{.tokens = {5, -1, 9},
                    .text = std::string("a\0b \xc3\xa9", 6),
                    .finish_reason = "eos",
                    .score = -0.5,
                    .logprobs = {-1.5f, -0.25f, 0.0f},
                    .likeliest = {{{1, -0.5f}, {2, -1.0f}}, {}, {{3, 0.0f}}}},
                   {.tokens = {}, .text = "", .finish_reason = "length", .score = {}, .logprobs = {}, .likeliest = {}}},
       .error = ""},
      {.row = 2, .answers = {}, .error = "too long"}};
  const std::vector<std::byte> bytes = encode(rows);
  EXPECT_EQ(std::get<std::vector<RowResult>>(decode(bytes).value()), rows);
  EXPECT_EQ(decode_row(bytes, 1).value(), rows[1]);
  EXPECT_FALSE(decode_row(bytes, 2).has_value());
}

TEST(RowRecord, RefusesBytesThatAreNoMessage) {
  std::vector<std::byte> bytes(64, std::byte{0xff});
  EXPECT_EQ(decode(bytes).error().kind, ErrorKind::kInvalidArgument);
  bytes.resize(13);
  EXPECT_EQ(decode(bytes).error().kind, ErrorKind::kInvalidArgument);
  EXPECT_FALSE(decode({}).has_value());
}

TEST(CheckSameJob, NamesTheFirstFactThatDiffers) {
  EXPECT_TRUE(check_same_job(kJob, kJob).has_value());
  JobDescription other = kJob;
  other.notes.clear();
  EXPECT_TRUE(check_same_job(kJob, other).has_value());  // notes are not compared
  other.facts[1].value = "bfloat16";
  const Error error = check_same_job(kJob, other).error();
  EXPECT_EQ(error.kind, ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.message, HasSubstr("found --dtype bfloat16 now, expected float32"));
}

TEST(CheckSameJob, NamesFactsThatOnlyOneSideHas) {
  JobDescription more = kJob;
  more.facts.push_back({"--window", "8"});
  EXPECT_THAT(check_same_job(kJob, more).error().message, HasSubstr("found --window 8 now, expected none"));
  EXPECT_THAT(check_same_job(more, kJob).error().message, HasSubstr("found --window none now, expected 8"));
  JobDescription longer = kJob;
  longer.rows = 4;
  EXPECT_THAT(check_same_job(kJob, longer).error().message, HasSubstr("found rows 4 now, expected 3"));
}

}  // namespace
}  // namespace lockstep::journal
