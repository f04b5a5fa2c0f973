#include "runtime/backends/cpu/memory.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "runtime/core/ids.h"

namespace lockstep::cpu {

Mapping::~Mapping() {
  if (data_ != nullptr) munmap(data_, size_);
}

Mapping::Mapping(Mapping&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

Result<Mapping> Mapping::create(int64_t bytes, Pages pages, const char* what) {
  constexpr int64_t kHugePage = int64_t{2} << 20;
  const int64_t unit = pages == Pages::kHuge && bytes >= kHugePage ? kHugePage : 4096;
  Mapping mapping;
  mapping.size_ = std::max<int64_t>((bytes + unit - 1) / unit * unit, unit);
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | (pages == Pages::kOnDemand ? MAP_NORESERVE : 0);
  void* data = mmap(nullptr, mapping.size_, PROT_READ | PROT_WRITE, flags, -1, 0);
  if (data == MAP_FAILED) {
    return Error{ErrorKind::kResourceExhausted,
                 fmt::format("[runtime/backends/cpu] cannot map memory for {}: found too little, expected {}; use a "
                             "smaller model, more ranks, fewer slots or a shorter sequence",
                             what, to_string(Bytes(bytes)))};
  }
  mapping.data_ = static_cast<std::byte*>(data);
  // Only advice: without it memory access is slower or pages are larger, but results are correct.
  madvise(data, mapping.size_, pages == Pages::kHuge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  return mapping;
}

void Mapping::release() {
  if (data_ != nullptr) madvise(data_, size_, MADV_DONTNEED);
}

int64_t Mapping::resident() const {
  const int64_t page = sysconf(_SC_PAGESIZE);
  constexpr int64_t kPagesAtOnce = int64_t{1} << 16;
  std::vector<unsigned char> present(static_cast<size_t>(kPagesAtOnce));
  int64_t count = 0;
  for (int64_t at = 0; at < size_; at += kPagesAtOnce * page) {
    const int64_t bytes = std::min(size_ - at, kPagesAtOnce * page);
    if (mincore(data_ + at, bytes, present.data()) != 0) continue;
    count += std::count_if(present.begin(), present.begin() + (bytes + page - 1) / page,
                           [](unsigned char p) { return (p & 1) != 0; });
  }
  return count * page;
}

}  // namespace lockstep::cpu
