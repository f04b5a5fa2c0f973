// Fuzzes the pickle of .bin files: it is refused, or tensors have as many strides as dimensions.
#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/checkpoint/unpickler.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto tensors = lockstep::checkpoint::unpickle_tensors(std::as_bytes(std::span(data, size)), "fuzz.pkl");
  if (!tensors.has_value()) {
    LOCKSTEP_CHECK(!tensors.error().message.empty());
    return 0;
  }
  for (const auto& [name, tensor] : tensors.value()) {
    LOCKSTEP_CHECK(tensor.shape.size() == tensor.strides.size(), name);
    LOCKSTEP_CHECK(tensor.first >= 0 && tensor.storage_elements >= 0, name);
    for (const auto& numbers : {tensor.shape, tensor.strides}) {
      for (const int64_t number : numbers) LOCKSTEP_CHECK(number >= 0, name, number);
    }
  }
  return 0;
}
