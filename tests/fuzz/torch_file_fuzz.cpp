// Fuzzes .bin files: one is refused, or every tensor lies inside the file.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "runtime/checkpoint/torch_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lockstep;
  const auto file_size = static_cast<int64_t>(size);
  const auto read = [&](int64_t offset, std::span<std::byte> dst) -> Result<void> {
    LOCKSTEP_CHECK(offset >= 0 && offset <= file_size, offset, file_size);
    LOCKSTEP_CHECK(dst.size() <= size - static_cast<size_t>(offset), offset, dst.size(), size);
    if (!dst.empty()) std::memcpy(dst.data(), data + offset, dst.size());
    return ok();
  };
  const auto tensors = checkpoint::read_torch_file({"fuzz.bin", file_size, read});
  if (!tensors.has_value()) {
    LOCKSTEP_CHECK(!tensors.error().message.empty());
    return 0;
  }
  for (const auto& [name, entry] : tensors.value()) {
    LOCKSTEP_CHECK(entry.offset >= 0 && entry.bytes >= 0, name, entry.offset, entry.bytes);
    if (entry.strides.empty()) LOCKSTEP_CHECK(entry.offset + entry.bytes <= file_size, name, entry.offset, entry.bytes);
    if (!entry.strides.empty()) LOCKSTEP_CHECK(entry.strides.size() == entry.type.shape.rank(), name);
    if (!entry.can_be_read || entry.type.shape.elements() == 0) continue;
    auto last = entry.offset + static_cast<int64_t>(size_of(entry.type.dtype));
    for (size_t axis = 0; axis < entry.strides.size(); ++axis) {
      last += (entry.type.shape[axis] - 1) * entry.strides[axis] * static_cast<int64_t>(size_of(entry.type.dtype));
    }
    LOCKSTEP_CHECK(last <= file_size, name, last, file_size);
  }
  return 0;
}
