// A temporary directory for a test.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "runtime/core/check.h"

namespace lockstep {

/// Made empty, removed with everything in it.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string name = (std::filesystem::temp_directory_path() / "lockstep-test-XXXXXX").string();
    LOCKSTEP_CHECK(::mkdtemp(name.data()) != nullptr, name);
    path_ = name;
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::filesystem::path& path() const { return path_; }

  void write(const std::string& name, std::string_view bytes) const {
    std::ofstream file(path_ / name, std::ios::binary);
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    LOCKSTEP_CHECK(file.good(), name);
  }

  /// A safetensors file: the length field, `header`, `data`.
  void write_safetensors(const std::string& name, std::string_view header, std::string_view data) const {
    const uint64_t length = header.size();
    std::string bytes(reinterpret_cast<const char*>(&length), sizeof length);
    write(name, bytes.append(header).append(data));
  }

 private:
  std::filesystem::path path_;
};

}  // namespace lockstep
