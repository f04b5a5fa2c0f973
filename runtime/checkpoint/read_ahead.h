// Weight files that a disk still holds, brought into the page cache while a process has other things to start: MPI, the
// tokenizer, its graphs. Loading then finds its bytes there, or overtakes the reading, which does no harm.
//
//   process 0   ██  ██  ██  ██  …     blocks of the files in their order, dealt to the processes of the host in turn
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
  /// Which of the processes of this host that start it together this one is.
  struct Share {
    int index = 0;
    int of = 1;
  };

  /// Starts to read the process's share of the weight files of `directory`, on threads of its own; first the small
  /// files beside them, which would wait behind the large ones. Reads nothing of files that are in memory already, and
  /// nothing at all where the files are more than `most` or cannot be opened: whoever loads them says why.
  ReadAhead(std::filesystem::path directory, Share share, Bytes most);
  /// Waits for the reads at hand, of a block each.
  ~ReadAhead() = default;
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  /// Whether files are being read, or have been: then loading need not announce its reads to the system.
  bool is_reading() const { return is_reading_.load(std::memory_order_relaxed); }
  /// Of the weight files, so far.
  Bytes bytes_read() const { return Bytes(bytes_read_.load(std::memory_order_relaxed)); }
  /// Waits until the share is read. @blocking (disk)
  void finish();

 private:
  void read(const std::stop_token& stop);
  /// Reads every `share.of`-th block of the files into `buffer`, a block long.
  void read_blocks(const std::vector<const RandomAccessFile*>& files, Share share, std::span<std::byte> buffer,
                   const std::stop_token& stop);

  const std::filesystem::path directory_;
  const Share share_;
  const Bytes most_;
  std::atomic<bool> is_reading_ = false;
  std::atomic<int64_t> bytes_read_ = 0;
  std::jthread thread_;  // last: uses the others
};

}  // namespace lockstep::checkpoint
