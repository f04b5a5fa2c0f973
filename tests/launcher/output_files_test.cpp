#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "launcher/generate/logits_file.h"
#include "launcher/process/exit_record.h"
#include "runtime/core/atomic_file.h"

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
