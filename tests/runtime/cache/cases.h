// Common parts of the cache tests: keys, counting makers, and collected log lines.
#pragma once

#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/cache/cache.h"

namespace lockstep::cache {

inline device::ArtifactKey key_of(const std::string& flags = "-O1", const std::string& module = "aa11",
                                  const std::string& compiler = "2.16.345") {
  return {.backend = "neuron",
          .step = "decode_64",
          .fields = {{"module", module}, {"compiler", compiler}, {"flags", flags}, {"ranks", "2"}}};
}

inline void write_text(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

inline std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// Makes artifacts that hold `text`, and counts.
struct Maker {
  std::string text = "compiled";
  std::atomic<int> calls = 0;

  device::MakeArtifact function() {
    return [this](const device::ArtifactWorkspace& workspace) -> Result<void> {
      ++calls;
      write_text(workspace.log, "a log");
      write_text(workspace.folder / "intermediate", "x");
      write_text(workspace.artifact, text);
      return ok();
    };
  }
};

/// A maker that fails, and counts.
struct FailingMaker {
  ErrorKind kind = ErrorKind::kUnsupported;
  std::atomic<int> calls = 0;

  device::MakeArtifact function() {
    return [this](const device::ArtifactWorkspace& workspace) -> Result<void> {
      ++calls;
      write_text(workspace.log, "error: sort is not supported");
      return Error{kind, "[neuron] the compiler failed; see " + workspace.log.string()};
    };
  }
};

/// A maker that must not be called.
inline device::MakeArtifact never() {
  return [](const device::ArtifactWorkspace&) -> Result<void> {
    return Error{ErrorKind::kInternal, "made what should have been found"};
  };
}

/// Collects log lines.
class Lines {
 public:
  Say taker() {
    return [this](LogLevel level, const std::string& line) {
      std::lock_guard lock(mutex_);
      (level == LogLevel::kWarning ? warnings_ : infos_).push_back(line);
    };
  }
  std::vector<std::string> warnings() const {
    std::lock_guard lock(mutex_);
    return warnings_;
  }
  std::vector<std::string> infos() const {
    std::lock_guard lock(mutex_);
    return infos_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> warnings_, infos_;
};

}  // namespace lockstep::cache
