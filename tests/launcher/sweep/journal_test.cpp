#include "launcher/measure/sweep/journal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "launcher/measure/sweep/runner.h"
#include "runtime/core/hash.h"
#include "tests/launcher/sweep/sweep_values.h"

namespace lockstep::launcher {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
namespace fs = std::filesystem;

const ModelIdentity kModel{.path = "models/tiny", .random_weights = true, .config_hash = "00ff"};

class SweepJournal : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(::testing::TempDir()) /
              (std::string("lockstep_journal_") + ::testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path path() const { return folder_ / "journal.jsonl"; }
  std::string text() const {
    std::ifstream file(path());
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  void write(std::string_view name, std::string_view contents) const { std::ofstream(folder_ / name) << contents; }
  std::unique_ptr<Journal> open() const { return Journal::open(path(), kModel).value(); }

  fs::path folder_;
};

PointRecord record(int tp, double unix_time = 1.0) {
  PointRecord made = record_of_bench({.tp = tp});
  made.result = R"({"decode":{"tokens_per_s":1.5}})";
  made.unix_time = unix_time;
  return made;
}

TEST_F(SweepJournal, GivesBackWhatWasAppended) {
  PointRecord failed = failed_record(4, PointStatus::kDeadline, "two\nlines of \"text\" – and more");
  failed.output = "failed-tp4.txt";
  {
    const auto journal = open();
    ASSERT_TRUE(journal->append(record(1)).has_value());
    ASSERT_TRUE(journal->append(failed).has_value());
  }
  const JournalFolder all = read_journals(folder_).value();
  EXPECT_EQ(all.model, kModel);
  EXPECT_THAT(all.points, ElementsAre(record(1), failed));
}

TEST_F(SweepJournal, ReadsLinesThatNameNoFileOfOutput) {
  std::string line = to_line(record(1));
  const std::string field = R"("output":"",)";
  ASSERT_NE(line.find(field), std::string::npos);
  line.erase(line.find(field), field.size());
  write("journal.jsonl", to_line(kModel) + line);
  EXPECT_THAT(read_journals(folder_).value().points, ElementsAre(record(1)));
}

TEST_F(SweepJournal, LosesOnlyTheLineThatWasTornWhereverThatHappened) {
  ASSERT_TRUE(open()->append(record(1)).has_value());
  const std::string whole = text(), next = to_line(record(2));
  for (size_t torn = 0; torn <= next.size(); ++torn) {
    write("journal.jsonl", whole + next.substr(0, torn));
    const size_t expected = torn == next.size() ? 2 : 1;
    EXPECT_THAT(read_journals(folder_).value().points, SizeIs(expected)) << torn;
    if (torn % 29 != 0 && torn + 1 < next.size()) continue;  // each append waits for the disk
    ASSERT_TRUE(open()->append(record(3)).has_value());
    const JournalFolder all = read_journals(folder_).value();
    ASSERT_THAT(all.points, SizeIs(expected + 1)) << torn;
    EXPECT_EQ(all.points.back(), record(3));
  }
}

TEST_F(SweepJournal, BeginsAgainWhenItsFirstLineWasTorn) {
  const std::string header = to_line(kModel);
  for (size_t torn = 0; torn < header.size(); torn += 9) {
    write("journal.jsonl", header.substr(0, torn));
    open();
    EXPECT_EQ(text(), header) << torn;
  }
}

TEST_F(SweepJournal, RefusesAFileThatIsDamagedInTheMiddleNamingTheLine) {
  write("journal.jsonl", to_line(kModel) + "{\"key\": 3}\n" + to_line(record(1)));
  const auto opened = Journal::open(path(), kModel);
  ASSERT_FALSE(opened.has_value());
  EXPECT_EQ(opened.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_THAT(opened.error().message, HasSubstr("line 2"));
  const std::string deep = std::string(200000, '[') + std::string(200000, ']');  // more than a stack has frames
  const auto nested = parse_journal(to_line(kModel) + deep + "\n" + to_line(record(1)), path());
  ASSERT_FALSE(nested.has_value());
  EXPECT_THAT(nested.error().message, HasSubstr("line 2"));
}

TEST_F(SweepJournal, RefusesAnotherModelAndChangesNothing) {
  ASSERT_TRUE(open()->append(record(1)).has_value());
  const std::string before = text();
  for (const ModelIdentity& other :
       {ModelIdentity{"models/other", true, "00ff"}, ModelIdentity{"models/tiny", false, "00ff"},
        ModelIdentity{"models/tiny", true, "0100"}}) {
    const auto opened = Journal::open(path(), other);
    ASSERT_FALSE(opened.has_value());
    EXPECT_EQ(opened.error().kind, ErrorKind::kInvalidArgument);
    EXPECT_THAT(opened.error().message, HasSubstr("another model"));
  }
  EXPECT_EQ(text(), before);
}

TEST_F(SweepJournal, HasOneWriterAtATime) {
  const auto first = open();
  const auto second = Journal::open(path(), kModel);
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().kind, ErrorKind::kFailedPrecondition);
}

TEST_F(SweepJournal, IsReadWithThoseOfArrayTasksTheLastRecordOfAPointCounting) {
  write("journal-0.jsonl", to_line(kModel) + to_line(record(1, 5.0)));
  write("journal-1.jsonl", to_line(kModel) + to_line(record(2)) + "{\"key\": \"to");
  write("journal.jsonl", to_line(kModel) + to_line(record(1, 3.0)) + to_line(record(4)));
  write("notes.jsonl", "anything\n");
  EXPECT_THAT(read_journals(folder_).value().points, ElementsAre(record(1, 5.0), record(2), record(4)));
  write("journal-2.jsonl", to_line(ModelIdentity{"models/other", true, "00ff"}));
  EXPECT_FALSE(read_journals(folder_).has_value());
}

TEST_F(SweepJournal, IsEmptyInAFolderWithoutOne) {
  EXPECT_THAT(read_journals(folder_ / "nothing").value().points, IsEmpty());
}

// The outcomes of points.

const PlannedPoint kPoint{.shape = {2, 1, 128, 16}, .key = "key", .impossible = std::nullopt};

PointRecord judged(const process::ChildOutcome& outcome, std::optional<std::string> document) {
  return record_of(kPoint, {.folder = "out", .launch = {}, .bench = {}, .variant = plain_variant()}, outcome,
                   std::move(document));
}

TEST(PointRecords, AreOkOnlyWithAResultOfTheirRanks) {
  EXPECT_EQ(judged({.code = 0}, FakeBench{.tp = 2}.document()).status, PointStatus::kOk);
  for (const std::string& other : {FakeBench{.tp = 1}.document(), std::string("{\"decode"), std::string("[]")}) {
    const PointRecord record = judged({.code = 0}, other);
    EXPECT_EQ(record.status, PointStatus::kFailed);
    EXPECT_EQ(record.code, 4);
    EXPECT_THAT(record.message, HasSubstr("without a result of 2 ranks"));
  }
}

TEST(PointRecords, KeepTheCodeAndTheReasonOfAFailure) {
  const PointRecord own =
      judged({.code = 2, .errors = "noise\n[1,0]<stderr>:lockstep: [launcher] no\nmore noise\n"}, {});
  EXPECT_EQ(own.code, 2);
  EXPECT_EQ(own.message, "exit code 2: [launcher] no");
  const PointRecord launcher = judged({.code = 1, .errors = "------\nnot enough slots\n------\n"}, {});
  EXPECT_EQ(launcher.code, 4) << "1 of a launcher is no bug of ours";
  EXPECT_EQ(launcher.message, "exit code 1: not enough slots");
  EXPECT_EQ(judged({.signal = 9}, {}).code, 137);
}

TEST(PointRecords, NameTheFileOfTheirOutput) {
  EXPECT_EQ(output_name(kPoint),
            "failed-tp2-batch1-prompt128-new16-" + fmt::format("{:016x}", Fingerprint().add("key").value()) + ".txt");
  PointRecord record = failed_record(2, PointStatus::kFailed, "exit code 5: lost\nmore");
  EXPECT_EQ(outcome_in_words(record), "failed (exit code 1): exit code 5: lost");
  record.output = "failed-tp2.txt";
  EXPECT_EQ(outcome_in_words(record),
            "failed (exit code 1): exit code 5: lost; all that it printed is in failed-tp2.txt");
}

TEST(PointRecords, TellADeadlineFromAFailure) {
  const PointRecord record = judged({.end = process::ChildOutcome::End::kDeadline, .signal = 15}, {});
  EXPECT_EQ(record.status, PointStatus::kDeadline);
  EXPECT_EQ(record.code, 6);
}

}  // namespace
}  // namespace lockstep::launcher
