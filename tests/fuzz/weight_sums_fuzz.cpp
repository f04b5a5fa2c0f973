// Fuzzes the sums beside a checkpoint: they are refused with a message, or their text reads as the same sums.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "runtime/checkpoint/weight_sums.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lockstep::checkpoint;
  const auto sums = parse_weight_sums({reinterpret_cast<const char*>(data), size}, "fuzz.json");
  if (!sums.has_value()) {
    LOCKSTEP_CHECK(!sums.error().message.empty());
    return 0;
  }
  const auto again = parse_weight_sums(to_text(sums.value()), "fuzz.json");
  LOCKSTEP_CHECK(again.has_value() && again.value() == sums.value());
  return 0;
}
