// Fuzzes the header of safetensors files: it is refused, or every tensor is valid. A valid tensor lies inside the file,
// has the size of its shape and shares no byte with another. The first two bytes select the size of the data.
#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/checkpoint/safetensors_header.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using lockstep::checkpoint::parse_safetensors_header;
  if (size < 2) return 0;
  const auto header = std::as_bytes(std::span(data, size)).subspan(2);
  const auto data_start = static_cast<int64_t>(header.size()) + 8;
  const int64_t file_size = data_start + data[0] + 256 * data[1];
  const auto tensors = parse_safetensors_header(header, data_start, file_size, "fuzz.safetensors");
  if (!tensors.has_value()) {
    LOCKSTEP_CHECK(!tensors.error().message.empty());
    return 0;
  }
  int64_t covered = 0;
  for (const auto& [name, entry] : tensors.value()) {
    LOCKSTEP_CHECK(entry.offset >= data_start && entry.bytes >= 0, name, entry.offset, entry.bytes);
    LOCKSTEP_CHECK(entry.offset + entry.bytes <= file_size, name, entry.offset, entry.bytes, file_size);
    if (entry.can_be_read) LOCKSTEP_CHECK(entry.type.bytes() == entry.bytes, name, entry.bytes);
    covered += entry.bytes;
  }
  LOCKSTEP_CHECK(covered == file_size - data_start, covered, file_size - data_start);
  return 0;
}
