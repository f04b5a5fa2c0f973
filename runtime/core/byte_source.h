// A file for header parsers: its size and a read function. Tests and fuzzers use memory instead.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>

#include "runtime/core/result.h"

namespace lockstep {

/// Bytes 0 … size − 1 of `path`. The path appears in messages and in the parsed entries.
struct ByteSource {
  std::filesystem::path path;
  int64_t size = 0;
  std::function<Result<void>(int64_t offset, std::span<std::byte> dst)> read;
};

}  // namespace lockstep
