// A file as the parsers of headers see it: a size and a way to read bytes. Tests and fuzzers give them memory instead.
// Private to this folder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>

#include "runtime/core/result.h"

namespace lockstep::checkpoint {

/// Bytes 0 … size − 1 of `path`, which is for messages and for what is found in it.
struct ByteSource {
  std::filesystem::path path;
  int64_t size = 0;
  std::function<Result<void>(int64_t offset, std::span<std::byte> dst)> read;
};

}  // namespace lockstep::checkpoint
