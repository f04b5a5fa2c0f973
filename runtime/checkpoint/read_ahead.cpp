#include "runtime/checkpoint/read_ahead.h"

#include <algorithm>
#include <exception>
#include <fstream>
#include <span>
#include <utility>
#include <vector>

#include "runtime/checkpoint/stored_files.h"
#include "runtime/gguf/gguf_model.h"

namespace lockstep::checkpoint {
namespace {

constexpr int64_t kBlockBytes = int64_t{512} << 10;
constexpr int64_t kSmallFileBytes = int64_t{64} << 20;  // a tokenizer can be tens of MiB
constexpr int kReadersOfAHost = 2;                      // at least: one reader leaves a fast disk idle between reads

/// Reads all other files beside the weights `files`.
void read_small_files(const std::filesystem::path& directory, const std::vector<const RandomAccessFile*>& files,
                      const std::stop_token& stop) {
  std::error_code failed;
  if (gguf::is_gguf(directory)) return;
  std::vector<char> buffer(static_cast<size_t>(kBlockBytes));
  for (const auto& entry : std::filesystem::directory_iterator(directory, failed)) {
    if (!entry.is_regular_file(failed) || static_cast<int64_t>(entry.file_size(failed)) > kSmallFileBytes) continue;
    if (std::ranges::find(files, entry.path(), &RandomAccessFile::path) != files.end()) continue;
    std::ifstream file(entry.path(), std::ios::binary);
    while (file && !stop.stop_requested()) file.read(buffer.data(), kBlockBytes);
  }
}

}  // namespace

ReadAhead::ReadAhead(std::filesystem::path directory, Share share, Bytes most)
    : directory_(std::move(directory)), share_(share), most_(most), thread_([this](const std::stop_token& stop) {
        try {
          read(stop);
        } catch (const std::exception&) {  // no memory for a buffer: loading works without
        }
      }) {}

void ReadAhead::finish() {
  if (thread_.joinable()) thread_.join();
}

void ReadAhead::read(const std::stop_token& stop) {
  const auto opened = StoredFiles::open(directory_);
  if (!opened.has_value() || opened.value()->bytes_of_files() > most_.value) return;
  const std::vector<const RandomAccessFile*> files = opened.value()->files_on_disk();
  if (files.empty()) return;
  is_reading_.store(true, std::memory_order_relaxed);
  read_small_files(directory_, files, stop);
  const int threads = std::max(1, kReadersOfAHost / share_.of);
  std::vector<std::byte> buffers(static_cast<size_t>(threads * kBlockBytes));
  const auto read_share_of = [&](int thread) {
    const Share share{.index = share_.index * threads + thread, .of = share_.of * threads};
    read_blocks(files, share, std::span(buffers).subspan(static_cast<size_t>(thread * kBlockBytes), kBlockBytes), stop);
  };
  std::vector<std::jthread> others;
  for (int thread = 1; thread < threads; ++thread) others.emplace_back(read_share_of, thread);
  read_share_of(0);
}

void ReadAhead::read_blocks(const std::vector<const RandomAccessFile*>& files, Share share, std::span<std::byte> buffer,
                            const std::stop_token& stop) {
  int64_t block = 0;  // index over all files
  for (const RandomAccessFile* file : files) {
    for (int64_t offset = 0; offset < file->size(); offset += kBlockBytes, ++block) {
      if (block % share.of != share.index) continue;
      const int64_t bytes = std::min(kBlockBytes, file->size() - offset);
      if (stop.stop_requested()) return;
      if (!file->read(offset, buffer.first(static_cast<size_t>(bytes))).has_value()) return;
      bytes_read_.fetch_add(bytes, std::memory_order_relaxed);
    }
  }
}

}  // namespace lockstep::checkpoint
