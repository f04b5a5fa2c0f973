#include "runtime/probe/buffer.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <utility>

namespace lockstep::probe {

Buffer::~Buffer() {
  if (mapping_ != nullptr) munmap(mapping_, mapped_);
}

Buffer::Buffer(Buffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      mapped_(std::exchange(other.mapped_, 0)),
      mapping_(std::exchange(other.mapping_, nullptr)),
      checksum_(other.checksum_) {}

Result<Buffer> Buffer::create(Bytes size, PageSize pages) {
  constexpr size_t kLargePage = size_t{2} << 20;
  Buffer buffer;
  buffer.size_ = static_cast<size_t>(size.value);
  buffer.mapped_ = buffer.size_ + kLargePage;
  void* mapping = mmap(nullptr, buffer.mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) {
    return Error{ErrorKind::kResourceExhausted,
                 fmt::format("[runtime/probe] cannot map a buffer: found too little memory, expected {}; probe with "
                             "smaller buffers",
                             to_string(size))};
  }
  buffer.mapping_ = mapping;
  const auto address = reinterpret_cast<uintptr_t>(mapping);
  buffer.data_ = static_cast<std::byte*>(mapping) + (kLargePage - address % kLargePage) % kLargePage;
  madvise(buffer.data_, buffer.size_, pages == PageSize::k2MiB ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  return buffer;
}

void Buffer::fill() {
  uint64_t word = 0, sum = 0;
  for (size_t at = 0; at < size_; at += sizeof(word)) {
    word += 0x9e3779b97f4a7c15ull;
    sum ^= word;
    std::memcpy(data_ + at, &word, sizeof(word));
  }
  checksum_ = sum;
}

Bytes last_level_cache() {
  for (const int level : {_SC_LEVEL4_CACHE_SIZE, _SC_LEVEL3_CACHE_SIZE, _SC_LEVEL2_CACHE_SIZE}) {
    if (const long size = sysconf(level); size > 0) return Bytes(size);
  }
  return Bytes(0);
}

}  // namespace lockstep::probe
