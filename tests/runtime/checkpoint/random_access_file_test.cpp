#include "runtime/checkpoint/random_access_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <string>

#include "tests/temporary_directory.h"

namespace lockstep::checkpoint {
namespace {

using ::testing::HasSubstr;

constexpr std::string_view kText = "the quick brown fox jumps over the lazy dog";

std::string text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Fails with EINTR every other time, and else delivers at most three bytes.
ssize_t interrupted_read(int descriptor, void* dst, size_t size, off_t offset) {
  static bool interrupt = false;
  interrupt = !interrupt;
  if (interrupt) {
    errno = EINTR;
    return -1;
  }
  return ::pread(descriptor, dst, std::min<size_t>(size, 3), offset);
}

ssize_t failing_read(int, void*, size_t, off_t) {
  errno = EIO;
  return -1;
}

TEST(RandomAccessFile, ReadsARangeThroughInterruptionsAndShortReads) {
  const TemporaryDirectory directory;
  directory.write("text", kText);
  const auto file = RandomAccessFile::open(directory.path() / "text", interrupted_read).value();
  std::vector<std::byte> bytes(20);
  ASSERT_TRUE(file->read(4, bytes).has_value());
  EXPECT_EQ(text_of(bytes), kText.substr(4, 20));
}

TEST(RandomAccessFile, SaysWhereATruncatedFileEnds) {
  const TemporaryDirectory directory;
  directory.write("text", kText);
  const auto file = RandomAccessFile::open(directory.path() / "text").value();
  std::vector<std::byte> bytes(20);
  const auto read = file->read(30, bytes);
  ASSERT_FALSE(read.has_value());
  EXPECT_EQ(read.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_THAT(read.error().message, HasSubstr("found its end at byte 43, expected 7 more"));
}

TEST(RandomAccessFile, PassesOnWhatTheSystemSays) {
  const TemporaryDirectory directory;
  directory.write("text", kText);
  const auto file = RandomAccessFile::open(directory.path() / "text", failing_read).value();
  std::vector<std::byte> bytes(1);
  const auto read = file->read(0, bytes);
  ASSERT_FALSE(read.has_value());
  EXPECT_EQ(read.error().kind, ErrorKind::kFailedPrecondition);
  EXPECT_THAT(read.error().message, HasSubstr("Input/output error"));
}

TEST(RandomAccessFile, RefusesADirectoryAndAMissingFile) {
  const TemporaryDirectory directory;
  EXPECT_EQ(RandomAccessFile::open(directory.path()).error().kind, ErrorKind::kFailedPrecondition);
  EXPECT_EQ(RandomAccessFile::open(directory.path() / "absent").error().kind, ErrorKind::kNotFound);
}

TEST(RandomAccessFile, TakesAnnouncementsOfBytesThatAreNotThere) {
  const TemporaryDirectory directory;
  directory.write("text", kText);
  const auto file = RandomAccessFile::open(directory.path() / "text").value();
  EXPECT_TRUE(file->was_cached());  // just written
  file->expect(30, 1'000'000);
  file->expect(0, 0);
  std::vector<std::byte> bytes(kText.size());
  ASSERT_TRUE(file->read(0, bytes).has_value());
  EXPECT_EQ(text_of(bytes), kText);
}

}  // namespace
}  // namespace lockstep::checkpoint
