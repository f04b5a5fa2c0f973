#include "transport/region/region.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace lockstep::transport::region {
namespace {

Error mapping_failed(size_t bytes, int error) {
  return {
      ErrorKind::kResourceExhausted,
      fmt::format("[transport/region] cannot map memory between ranks: found '{}', expected {} bytes; free memory or "
                  "choose a smaller message size",
                  std::strerror(error), bytes)};
}

}  // namespace

Layout Layout::of(int ranks, size_t message_bytes) {
  const size_t wanted = std::max(message_bytes, kSmallestMessage);
  return {.ranks = ranks, .message_bytes = (wanted + kPageBytes - 1) / kPageBytes * kPageBytes};
}

Result<Memory> Memory::anonymous(size_t bytes) {
  void* const data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) return mapping_failed(bytes, errno);
  return Memory(static_cast<std::byte*>(data), bytes);
}

Result<Memory> Memory::of_file(int descriptor, size_t bytes) {
  void* const data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (data == MAP_FAILED) return mapping_failed(bytes, errno);
  return Memory(static_cast<std::byte*>(data), bytes);
}

Memory::Memory(Memory&& other) noexcept : data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}

Memory::~Memory() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

}  // namespace lockstep::transport::region
