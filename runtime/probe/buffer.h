// Anonymous memory in pages of a chosen size.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/core/ids.h"
#include "runtime/core/result.h"

namespace lockstep::probe {

enum class PageSize { k4KiB, k2MiB };

/// Owns its memory; neither copied nor moved after it was filled.
class Buffer {
 public:
  Buffer() = default;
  ~Buffer();
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&&) = delete;

  /// Reserves address space for `size` bytes; `fill` allocates the memory. The system may use small pages although
  /// large ones were requested. Fails with `kResourceExhausted`.
  static Result<Buffer> create(Bytes size, PageSize pages);

  /// Writes a pattern. Call it on the thread that will read the buffer: the first writer determines the NUMA node.
  void fill();

  const std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  /// XOR of all 64-bit words.
  uint64_t checksum() const { return checksum_; }

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
  size_t mapped_ = 0;
  void* mapping_ = nullptr;
  uint64_t checksum_ = 0;
};

/// Size of the last-level cache; 0 when the system does not report it.
Bytes last_level_cache();

}  // namespace lockstep::probe
