// Copies of a stand-in's file for tests: a loaded library keeps the settings of its first load.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

namespace lockstep::cu {

/// A copy of `library`; a program that loads it finds `settings` in `variable`.
inline std::filesystem::path fresh_copy(const std::filesystem::path& library, const char* variable,
                                        const char* settings) {
  static int count = 0;
  setenv(variable, settings, 1);
  const std::filesystem::path file = std::filesystem::path(testing::TempDir()) /
                                     fmt::format("{}-{}-{}.so", library.stem().string(), getpid(), count++);
  std::filesystem::copy_file(library, file, std::filesystem::copy_options::overwrite_existing);
  return file;
}

}  // namespace lockstep::cu
