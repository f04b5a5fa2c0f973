#include "runtime/journal/journal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

namespace lockstep::journal {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

const JobDescription kJob{.rows = 5, .facts = {{"--dtype", "float32"}}, .notes = {{"capacity", "64"}}};

RowResult row(uint64_t index, const std::string& text = "text") {
  return {.row = index,
          .answers = {{.tokens = {static_cast<int32_t>(index), 2},
                       .text = text,
                       .finish_reason = "eos",
                       .score = {},
                       .logprobs = {},
                       .likeliest = {}}},
          .error = ""};
}

class JournalTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto& test = *::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::path(::testing::TempDir()) / (std::string("lockstep_journal_") + test.name());
    fs::remove_all(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::unique_ptr<Journal> open() const {
    auto journal = Journal::open(folder_);
    EXPECT_TRUE(journal.has_value()) << journal.error().message;
    return std::move(journal).value();
  }

  /// A journal with rows 3 and 1, as it was written.
  struct TwoRows {
    std::string whole;
    size_t last = 0;  // where the record of row 1 begins
  };
  TwoRows write_two_rows() const {
    const auto journal = open();
    EXPECT_TRUE(journal->begin(kJob).has_value());
    EXPECT_TRUE(journal->append(std::vector<RowResult>{row(3)}).has_value());
    const size_t last = bytes().size();
    EXPECT_TRUE(journal->append(std::vector<RowResult>{row(1)}).has_value());
    return {bytes(), last};
  }

  std::string bytes() const {
    std::ifstream file(path_of_file(folder_), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  void write(const std::string& bytes) const { std::ofstream(path_of_file(folder_), std::ios::binary) << bytes; }

  fs::path folder_;
};

TEST_F(JournalTest, RemembersRowsAfterItWasClosed) {
  {
    const auto journal = open();
    EXPECT_FALSE(journal->job().has_value());
    ASSERT_TRUE(journal->begin(kJob).has_value());
    const std::vector<RowResult> together = {row(3), row(0, "other")};
    ASSERT_TRUE(journal->append(together).has_value());
    const std::vector<RowResult> alone = {row(4)};
    ASSERT_TRUE(journal->append(alone).has_value());
    EXPECT_EQ(journal->read(0).value(), row(0, "other"));
  }
  const auto journal = open();
  EXPECT_EQ(journal->job(), kJob);
  EXPECT_EQ(journal->done(), 3u);
  EXPECT_EQ(journal->dropped_bytes(), 0);
  EXPECT_TRUE(journal->is_done(3));
  EXPECT_FALSE(journal->is_done(1));
  EXPECT_EQ(journal->read(3).value(), row(3));
  EXPECT_EQ(journal->read(4).value(), row(4));
  const Progress progress = read_progress(folder_).value();
  EXPECT_EQ(progress.done, 3u);
  EXPECT_EQ(progress.rows, 5u);
}

TEST_F(JournalTest, GoesOnAfterALastRecordThatWasTornAtAnyByte) {
  const auto [whole, last] = write_two_rows();
  for (size_t size = last; size < whole.size(); ++size) {
    write(whole.substr(0, size));
    {
      const auto journal = open();
      EXPECT_EQ(journal->done(), 1u) << size;
      EXPECT_EQ(journal->dropped_bytes(), static_cast<int64_t>(size - last));
      ASSERT_TRUE(journal->append(std::vector<RowResult>{row(1)}).has_value());
    }
    EXPECT_EQ(bytes(), whole) << size;
  }
}

TEST_F(JournalTest, BeginsAnewAfterAFirstRecordThatWasTornAtAnyByte) {
  ASSERT_TRUE(open()->begin(kJob).has_value());
  const std::string whole = bytes();
  for (size_t size = 0; size < whole.size(); ++size) {
    write(whole.substr(0, size));
    const auto journal = open();
    EXPECT_FALSE(journal->job().has_value()) << size;
    ASSERT_TRUE(journal->begin(kJob).has_value());
    EXPECT_EQ(bytes(), whole) << size;
  }
}

TEST_F(JournalTest, NoticesAFlippedBitAtEveryByteBeforeTheLastRecord) {
  const auto [whole, last] = write_two_rows();
  for (size_t at = 0; at < last; ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ (1 << (at % 8)));
    write(damaged);
    const auto journal = Journal::open(folder_);
    ASSERT_FALSE(journal.has_value()) << at;
    EXPECT_EQ(journal.error().kind, ErrorKind::kInvalidArgument);
    EXPECT_FALSE(read_progress(folder_).has_value());
    EXPECT_EQ(bytes(), damaged) << "nothing may be changed";
  }
}

TEST_F(JournalTest, RefusesZerosInPlaceOfItsFirstRecords) {
  size_t second = 0;  // where the record behind the first page begins
  {
    const auto journal = open();
    ASSERT_TRUE(journal->begin(kJob).has_value());
    ASSERT_TRUE(journal->append(std::vector<RowResult>{row(3, std::string(5000, 'a'))}).has_value());
    second = bytes().size();
    ASSERT_TRUE(journal->append(std::vector<RowResult>{row(1)}).has_value());
  }
  const std::string whole = bytes();
  const auto zeroed = [&](size_t first, size_t size) { return std::string(first, '\0') + whole.substr(first, size); };
  write(zeroed(4096, std::string::npos));
  for (const Error& error : {Journal::open(folder_).error(), read_progress(folder_).error()}) {
    EXPECT_EQ(error.kind, ErrorKind::kInvalidArgument);
    EXPECT_THAT(error.message, HasSubstr("damaged at byte 0:"));
    EXPECT_THAT(error.message, HasSubstr("at byte " + std::to_string(second)));
  }
  EXPECT_EQ(bytes(), zeroed(4096, std::string::npos)) << "nothing may be changed";
  // The rest of a first write, whose first page did not reach the disk, and room that a file system has made.
  for (const std::string& rest : {zeroed(4096, second - 4096 - 8), std::string(3 * 4096, '\0')}) {
    write(rest);
    EXPECT_FALSE(open()->job().has_value());
  }
}

TEST_F(JournalTest, RefusesRowsThatItCannotHave) {
  {
    const auto journal = open();
    ASSERT_TRUE(journal->begin(kJob).has_value());
    ASSERT_TRUE(journal->append(std::vector<RowResult>{row(3)}).has_value());
    EXPECT_FALSE(journal->append(std::vector<RowResult>{row(3)}).has_value());
  }
  const auto journal = Journal::open(folder_);
  ASSERT_FALSE(journal.has_value());
  EXPECT_THAT(journal.error().message, HasSubstr("row 3 again"));
}

TEST_F(JournalTest, RefusesAFileThatIsSomethingElse) {
  fs::create_directory(folder_);
  write("{\"prompt\": \"hello\"}\n");
  const auto journal = Journal::open(folder_);
  ASSERT_FALSE(journal.has_value());
  EXPECT_THAT(journal.error().message, HasSubstr("not a journal"));
  EXPECT_EQ(bytes(), "{\"prompt\": \"hello\"}\n");
}

TEST_F(JournalTest, HasOneUserAtATime) {
  auto journal = open();
  const auto second = Journal::open(folder_);
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().kind, ErrorKind::kFailedPrecondition);
  EXPECT_THAT(second.error().message, HasSubstr("in use"));
  EXPECT_TRUE(read_progress(folder_).has_value());
  journal.reset();
  EXPECT_TRUE(Journal::open(folder_).has_value());
}

TEST_F(JournalTest, IsFreeAgainWhenItsUserWasKilled) {
  const pid_t child = ::fork();
  if (child == 0) {
    const auto journal = Journal::open(folder_);
    ::raise(SIGKILL);
  }
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_TRUE(Journal::open(folder_).has_value());
}

TEST_F(JournalTest, NamesAFolderThatCannotBe) {
  EXPECT_EQ(Journal::open(folder_ / "deeper").error().kind, ErrorKind::kInvalidArgument);
  std::ofstream(folder_.string()) << "a file";
  const Error error = Journal::open(folder_).error();
  EXPECT_EQ(error.kind, ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.message, HasSubstr(folder_.string()));
}

TEST_F(JournalTest, KeepsWhatItHasWhenTheDiskIsFull) {
  // The limit of a file's size is the full disk that a test can have.
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const auto journal = Journal::open(folder_).value();
    bool good = journal->begin(kJob).has_value() && journal->append(std::vector<RowResult>{row(3)}).has_value();
    const auto size = static_cast<rlim_t>(bytes().size());
    const rlimit limit{size + 40, size + 40};
    good = good && ::setrlimit(RLIMIT_FSIZE, &limit) == 0;
    const auto failed = journal->append(std::vector<RowResult>{row(1)});
    good = good && !failed.has_value() && failed.error().kind == ErrorKind::kUnavailable;
    good = good && !journal->append(std::vector<RowResult>{row(2)}).has_value();
    ::_exit(good ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  const auto journal = open();
  EXPECT_EQ(journal->done(), 1u);
  EXPECT_EQ(journal->dropped_bytes(), 0);
}

TEST(ReadProgress, IsNothingWhereNothingBegan) {
  const Progress progress = read_progress("no/such/folder").value();
  EXPECT_EQ(progress.done, 0u);
  EXPECT_EQ(progress.rows, 0u);
}

}  // namespace
}  // namespace lockstep::journal
