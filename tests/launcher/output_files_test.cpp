#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "launcher/generate/logits_file.h"
#include "launcher/process/exit_record.h"
#include "runtime/core/atomic_file.h"
#include "runtime/core/descriptor.h"

namespace lockstep::launcher {
namespace {

using ::testing::HasSubstr;

std::filesystem::path fresh_folder(const char* name) {
  const auto folder = std::filesystem::path(::testing::TempDir()) / name;
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  return folder;
}

size_t files_in(const std::filesystem::path& folder) {
  const std::filesystem::directory_iterator files(folder);
  return static_cast<size_t>(std::distance(begin(files), end(files)));
}

TEST(WriteFile, ReplacesTheOldFileAndLeavesNothingElse) {
  const auto folder = fresh_folder("write_file");
  ASSERT_TRUE(write_text_file(folder / "out.json", "first, and longer").has_value());
  ASSERT_TRUE(write_text_file(folder / "out.json", "second").has_value());
  EXPECT_EQ(read_text_file(folder / "out.json", "--json").value(), "second");
  EXPECT_EQ(files_in(folder), 1u);
}

TEST(WriteFile, FailsWithTheNameAndLeavesNothingHalfWritten) {
  const auto folder = fresh_folder("write_file_failure");
  const auto result = write_text_file(folder / "missing" / "out.json", "text");
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_THAT(result.error().message, HasSubstr("missing/out.json"));
  EXPECT_EQ(files_in(folder), 0u);
}

/// A named pipe in a fresh folder.
std::filesystem::path fresh_pipe(const char* name) {
  const auto pipe = fresh_folder(name) / "pipe";
  EXPECT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  return pipe;
}

/// The reading end of `pipe`, opened without its writer; reads from it wait.
Descriptor open_reader(const std::filesystem::path& pipe) {
  Descriptor reader(::open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  EXPECT_TRUE(reader.is_open());
  EXPECT_EQ(::fcntl(reader.get(), F_SETFL, O_RDONLY), 0);
  return reader;
}

std::string read_to_the_end(const Descriptor& reader) {
  std::string text;
  std::array<char, 4096> part{};
  for (ssize_t size = 0; (size = ::read(reader.get(), part.data(), part.size())) > 0;) {
    text.append(part.data(), static_cast<size_t>(size));
  }
  return text;
}

TEST(WriteFile, WritesIntoAPipeThatStays) {
  const auto pipe = fresh_pipe("write_pipe");
  const std::string text(1 << 20, 'x');  // more than a pipe holds
  const Descriptor reader = open_reader(pipe);
  Result<void> written = ok();
  std::atomic<bool> is_over = false;
  std::thread writer([&] {
    written = write_text_file(pipe, text);
    is_over = true;
  });
  std::string read;
  while (!is_over) read += read_to_the_end(reader);  // which ends at once before the thread has opened the pipe
  writer.join();
  read += read_to_the_end(reader);
  ASSERT_TRUE(written.has_value()) << written.error().message;
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));
  EXPECT_EQ(read, text);
  EXPECT_EQ(files_in(pipe.parent_path()), 1u);
}

TEST(WriteFile, WritesIntoAPipeBehindALink) {
  const auto pipe = fresh_pipe("write_linked_pipe");
  const auto link = pipe.parent_path() / "link";
  std::filesystem::create_symlink("pipe", link);
  const Descriptor reader = open_reader(pipe);
  ASSERT_TRUE(write_text_file(link, "text").has_value());
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_EQ(read_to_the_end(reader), "text");
}

TEST(WriteFile, DoesNotWaitForTheReaderOfAPipe) {
  const auto pipe = fresh_pipe("write_pipe_without_reader");
  const auto written = write_text_file(pipe, "text");
  ASSERT_FALSE(written.has_value());
  EXPECT_THAT(written.error().message, HasSubstr("found no reader of the pipe"));
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));
}

TEST(WriteFile, WritesTheTargetOfALinkThatStays) {
  const auto folder = fresh_folder("write_link");
  const auto others = fresh_folder("write_link_target");
  std::filesystem::create_symlink(others / "new.json", folder / "first");  // its target is not there yet
  std::filesystem::create_symlink("first", folder / "second");
  for (const char* text : {"one", "another"}) {
    ASSERT_TRUE(write_text_file(folder / "second", text).has_value());
    EXPECT_TRUE(std::filesystem::is_symlink(folder / "second"));
    EXPECT_TRUE(std::filesystem::is_symlink(folder / "first"));
    EXPECT_EQ(read_text_file(others / "new.json", "--json").value(), text);
  }
  EXPECT_EQ(files_in(folder), 2u);
  EXPECT_EQ(files_in(others), 1u);
}

TEST(WriteFile, ReplacesALinkWhereTheFileIsForItsOwner) {
  const auto folder = fresh_folder("write_secret_link");
  std::filesystem::create_symlink(folder / "elsewhere", folder / "secret");
  ASSERT_TRUE(write_text_file(folder / "secret", "text", FileAccess::kOwner).has_value());
  EXPECT_FALSE(std::filesystem::is_symlink(folder / "secret"));
  EXPECT_EQ(files_in(folder), 1u);
}

TEST(WriteFile, RefusesLinksInACircle) {
  const auto folder = fresh_folder("write_circle");
  std::filesystem::create_symlink("b", folder / "a");
  std::filesystem::create_symlink("a", folder / "b");
  EXPECT_THAT(write_text_file(folder / "a", "text").error().message, HasSubstr("cannot write"));
  EXPECT_FALSE(check_writable(folder / "a", "--json").has_value());
}

TEST(WriteFile, SaysThatTheReaderOfAPipeHasLeft) {
  const auto pipe = fresh_pipe("write_left_pipe");
  Descriptor reader = open_reader(pipe);
  auto file = AtomicFile::create(pipe);
  ASSERT_TRUE(file.has_value()) << file.error().message;
  reader.close();
  const auto appended = file.value().append(std::string(100'000, 'x'));
  ASSERT_FALSE(appended.has_value());
  EXPECT_EQ(appended.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_THAT(appended.error().message, HasSubstr("Broken pipe"));
}

TEST(CheckWritable, TakesAPipeWithoutOpeningIt) {
  EXPECT_TRUE(check_writable(fresh_pipe("check_pipe"), "--json").has_value());
  EXPECT_TRUE(check_writable("/dev/null", "--json").has_value());
}

TEST(CheckWritable, LooksAtTheFolderOfALinksTarget) {
  const auto folder = fresh_folder("check_link");
  std::filesystem::create_symlink(folder / "missing" / "out.json", folder / "link");
  EXPECT_THAT(check_writable(folder / "link", "--json").error().message, HasSubstr("folder that exists"));
  std::filesystem::create_directory(folder / "missing");
  EXPECT_TRUE(check_writable(folder / "link", "--json").has_value());
}

TEST(CheckWritable, RefusesAFolderAndAMissingFolderBeforeTheWork) {
  const auto folder = fresh_folder("check_writable");
  EXPECT_TRUE(check_writable(folder / "out.json", "--json").has_value());
  EXPECT_THAT(check_writable(folder, "--json").error().message, HasSubstr("--json: found the folder"));
  EXPECT_THAT(check_writable(folder / "no" / "out", "--json").error().message, HasSubstr("folder that exists"));
}

TEST(LogitsFile, IsASafetensorsFilePaddedWithZeros) {
  const auto folder = fresh_folder("logits");
  ASSERT_TRUE(write_logits(folder / "l.safetensors", "logits", {{1, 2, 3, 4}, {5, 6}}, /*vocabulary=*/2).has_value());
  const std::string bytes = read_text_file(folder / "l.safetensors", "").value();
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, bytes.data(), 8);
  const auto header = nlohmann::json::parse(bytes.substr(8, header_bytes));
  EXPECT_EQ(header["logits"]["dtype"], "F32");
  EXPECT_EQ(header["logits"]["shape"], (std::vector<int>{2, 2, 2}));
  std::vector<float> values(8);
  ASSERT_EQ(bytes.size(), 8 + header_bytes + 32);
  std::memcpy(values.data(), bytes.data() + 8 + header_bytes, 32);
  EXPECT_EQ(values, (std::vector<float>{1, 2, 3, 4, 5, 6, 0, 0}));
}

TEST(LogitsFile, NamesItsTensorAndMayHoldNoSteps) {
  const auto folder = fresh_folder("scores");
  ASSERT_TRUE(write_logits(folder / "s.safetensors", "scores", {{}, {}}, /*vocabulary=*/3).has_value());
  const std::string bytes = read_text_file(folder / "s.safetensors", "").value();
  const auto header = nlohmann::json::parse(bytes.substr(8));
  EXPECT_EQ(header["scores"]["shape"], (std::vector<int>{2, 0, 3}));
}

TEST(ExitRecord, SaysWhoWasLostAndWhere) {
  const auto folder = fresh_folder("exit_record");
  const ExitRecord record{.code = 5,
                          .rank = 1,
                          .lost_rank = 0,
                          .phase = "decode",
                          .operation = "all_reduce",
                          .sequence = 77,
                          .message = "rank 0 is gone",
                          .unix_time = 1.5};
  ASSERT_TRUE(write_exit_record(folder, record).has_value());
  const auto json = nlohmann::json::parse(read_text_file(folder / "rank-1.json", "").value());
  EXPECT_EQ(json["code"], 5);
  EXPECT_EQ(json["lost_rank"], 0);
  EXPECT_EQ(json["operation"], "all_reduce");
  EXPECT_EQ(json["sequence"], 77);
  EXPECT_TRUE(nlohmann::json::parse(to_json({}))["lost_rank"].is_null());
}

}  // namespace
}  // namespace lockstep::launcher
