// Reads weight files into the page cache in the background, during the start of a process. Loading then finds its bytes
// in memory. If loading is faster than the background reads, they are merely useless.
//
//   process 0   ██  ██  ██  ██  …     blocks of the files in order, alternating between the processes
//   process 1     ██  ██  ██  ██
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <span>
#include <thread>
#include <vector>

#include "runtime/core/ids.h"

namespace lockstep::checkpoint {

class RandomAccessFile;

class ReadAhead {
 public:
  /// The position of this process among the reading processes of this host.
  struct Share {
    int index = 0;
    int of = 1;
  };

  /// Starts background threads that read the process's share of the weight files of `directory`, after the small files
  /// beside them, which would otherwise wait behind the large ones. Skips files already in memory, and reads nothing if
  /// the files exceed `most` or cannot be opened; loading reports such errors.
  ReadAhead(std::filesystem::path directory, Share share, Bytes most);
  /// Waits for the current reads, one block each.
  ~ReadAhead() = default;
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  /// Whether files are being or have been read; then loading does not announce its reads to the system.
  bool is_reading() const { return is_reading_.load(std::memory_order_relaxed); }
  /// Bytes of weight files read so far.
  Bytes bytes_read() const { return Bytes(bytes_read_.load(std::memory_order_relaxed)); }
  /// Waits until the share has been read. @blocking (disk)
  void finish();

 private:
  void read(const std::stop_token& stop);
  /// Reads every `share.of`-th block of the files into `buffer`, which holds one block.
  void read_blocks(const std::vector<const RandomAccessFile*>& files, Share share, std::span<std::byte> buffer,
                   const std::stop_token& stop);

  const std::filesystem::path directory_;
  const Share share_;
  const Bytes most_;
  std::atomic<bool> is_reading_ = false;
  std::atomic<int64_t> bytes_read_ = 0;
  std::jthread thread_;  // last, because it uses the others
};

}  // namespace lockstep::checkpoint
