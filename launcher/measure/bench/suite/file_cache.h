// The page cache under the weights of a checkpoint: emptied of them, and timed while they are read.
#pragma once

#include <cstdint>
#include <filesystem>

#include "runtime/core/result.h"

namespace lockstep::launcher::suite {

/// Reading every file of weights once.
struct FileReading {
  int64_t bytes = 0;
  double seconds = 0.0;
};

/// Reads *.safetensors of `folder`, or *.bin where there are none of those, with `threads` threads, which share them by
/// pieces, into buffers that stay in a cache. Fails with `kNotFound` when there are neither, with `kUnavailable` when
/// one cannot be read. @blocking
Result<FileReading> read_files(const std::filesystem::path& folder, int threads);

/// Asks the system to forget what it keeps of the files, as far as it is written. Fails with `kUnavailable` when it
/// still holds more than a hundredth of them afterwards. @blocking
Result<void> drop_from_cache(const std::filesystem::path& folder);

}  // namespace lockstep::launcher::suite
