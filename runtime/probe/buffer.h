// Anonymous memory in pages of a chosen size.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/core/ids.h"
#include "runtime/core/result.h"

namespace lockstep::probe {

enum class PageSize { k4KiB, k2MiB };

/// Owned; neither copied nor moved after it was filled.
class Buffer {
 public:
  Buffer() = default;
  ~Buffer();
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&&) = delete;

  /// Address space of `size` bytes, which becomes memory when it is filled. Large pages are a wish: the system may give
  /// small ones. Fails with `kResourceExhausted`.
  static Result<Buffer> create(Bytes size, PageSize pages);

  /// Writes a pattern. Call on the thread that will read it: memory comes from the node of the first writer.
  void fill();

  const std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  /// The exclusive or of all 64-bit words.
  uint64_t checksum() const { return checksum_; }

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
  size_t mapped_ = 0;
  void* mapping_ = nullptr;
  uint64_t checksum_ = 0;
};

/// Of the last level; 0 when the system does not say.
Bytes last_level_cache();
/// What the system could give without swapping; 0 when it does not say.
Bytes available_memory();

}  // namespace lockstep::probe
