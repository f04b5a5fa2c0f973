// A folder for a cache, with makers and listeners, for one test.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <vector>

#include "runtime/cache/cache.h"
#include "runtime/cache/files.h"
#include "runtime/cache/key.h"
#include "tests/runtime/cache/cases.h"
#include "tests/temporary_directory.h"

namespace lockstep::cache {

namespace fs = std::filesystem;

inline std::vector<fs::path> inside(const fs::path& folder) {
  std::vector<fs::path> paths;
  if (!fs::exists(folder)) return paths;
  for (const auto& entry : fs::directory_iterator(folder)) paths.push_back(entry.path());
  return paths;
}

class CacheTest : public ::testing::Test {
 protected:
  Options options() {
    return {.folder = directory_.path() / "cache", .wait_s = 60.0, .build = "build-1", .say = lines_.taker()};
  }
  std::unique_ptr<device::ArtifactCache> open() { return open(options()); }
  static std::unique_ptr<device::ArtifactCache> open(Options options) { return make_cache(std::move(options)).value(); }

  /// Failures are dated in milliseconds, so this waits until a newly opened cache is later than all failures.
  static void wait_for_next_start() {
    const int64_t begin = unix_milliseconds();
    while (unix_milliseconds() <= begin) {
    }
  }

  fs::path folder() const { return directory_.path() / "cache"; }
  fs::path entry(const device::ArtifactKey& key) const { return folder() / "entries" / address_of(key); }

  TemporaryDirectory directory_;
  Lines lines_;
  Maker maker_;
  FailingMaker failing_;
};

}  // namespace lockstep::cache
