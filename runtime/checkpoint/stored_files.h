// The weight files of a model, with their tensors: those of a directory, or GGUF files. Private to this folder.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/random_access_file.h"
#include "runtime/core/byte_source.h"
#include "runtime/core/result.h"
#include "runtime/gguf/gguf_header.h"

namespace lockstep::checkpoint {

/// Open files. Thread-safe.
class StoredFiles {
 public:
  /// Opens `directory`; searches and fails as `open_checkpoint` does. `directory` may be a GGUF file.
  static Result<std::unique_ptr<StoredFiles>> open(const std::filesystem::path& directory);
  /// Whether `directory` has weights that `open` would open.
  static bool are_in(const std::filesystem::path& directory);
  StoredFiles(const StoredFiles&) = delete;
  StoredFiles& operator=(const StoredFiles&) = delete;

  const std::filesystem::path& directory() const { return directory_; }

  /// All tensors, by their names in the files.
  const TensorMap& tensors() const { return tensors_; }

  /// The open file at the path of a tensor entry.
  const RandomAccessFile& file(const std::filesystem::path& path) const { return *files_.at(path); }

  /// Fills `dst` with the bytes of `file` (one of these files) from `offset` on. @blocking (disk)
  Result<void> read(const RandomAccessFile& file, int64_t offset, std::span<std::byte> dst) const;

  /// `Checkpoint::fingerprint`.
  uint64_t fingerprint() const;

  /// `Checkpoint::bytes_read`.
  int64_t bytes_read() const { return bytes_read_.load(std::memory_order_relaxed); }

  /// `Checkpoint::bytes_of_files`.
  int64_t bytes_of_files() const;

  /// The files outside the page cache when they were opened, in the order of their names.
  std::vector<const RandomAccessFile*> files_on_disk() const;

  /// A number that increases with the order of the file names, and within a file with `offset`.
  int64_t place_of(const std::filesystem::path& path, int64_t offset) const;

 private:
  using HeaderReader = Result<TensorMap> (*)(const ByteSource& file);

  explicit StoredFiles(std::filesystem::path directory) : directory_(std::move(directory)) {}
  Result<TensorMap> open_file(const std::string& name, HeaderReader read_header);
  Result<void> open_shards(const std::filesystem::path& index, HeaderReader read_header);
  Result<gguf::GgufHeader> open_gguf_part(const std::filesystem::path& path);
  Result<void> open_gguf();

  std::filesystem::path directory_;
  std::map<std::filesystem::path, std::unique_ptr<RandomAccessFile>> files_;
  TensorMap tensors_;
  mutable std::atomic<int64_t> bytes_read_ = 0;
};

}  // namespace lockstep::checkpoint
