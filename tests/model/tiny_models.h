// Hugging Face directories of tiny models for tests: a config.json and the other required files, without weights.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "tests/model/tiny_configs.h"  // IWYU pragma: export

namespace lockstep::model {

/// A directory below the test's temporary directory; the destructor removes it.
class TinyModel {
 public:
  /// `name` distinguishes several of one test.
  explicit TinyModel(std::string_view config, const std::string& name = "model")
      : path_(directory_of_test().string() + "_" + name) {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
    write("config.json", config);
  }
  ~TinyModel() { std::filesystem::remove_all(path_); }
  TinyModel(const TinyModel&) = delete;
  TinyModel& operator=(const TinyModel&) = delete;

  const std::filesystem::path& path() const { return path_; }

  /// Writes a file into it; returns its path.
  std::filesystem::path write(std::string_view name, std::string_view contents) const {
    std::ofstream(path_ / name) << contents;
    return path_ / name;
  }

 private:
  /// Of the test alone: others, and the same of another build, may run at the same time.
  static std::filesystem::path directory_of_test() {
    const ::testing::TestInfo& test = *::testing::UnitTest::GetInstance()->current_test_info();
    return std::filesystem::path(::testing::TempDir()) /
           (std::string("lockstep_") + test.test_suite_name() + "_" + test.name() + "_" + std::to_string(::getpid()));
  }

  std::filesystem::path path_;
};

}  // namespace lockstep::model
