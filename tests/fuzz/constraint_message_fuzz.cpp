// Fuzzes messages to and from the processes that compile constraints: they are refused, or their bytes are the value's.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/constraint/constraint_wire.h"
#include "runtime/core/check.h"

using namespace lockstep;
using namespace lockstep::constraint;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (const auto setup = parse_setup(bytes)) {
    const auto again = parse_setup(to_bytes(*setup));
    LOCKSTEP_CHECK(again && again->table.tokens == setup->table.tokens && again->table.special == setup->table.special);
  }
  if (const auto format = parse_format(bytes)) LOCKSTEP_CHECK(to_bytes(*format) == bytes);
  const auto numbers = parse_numbers(bytes);
  LOCKSTEP_CHECK(bytes.starts_with(to_bytes(std::span<const int32_t>(numbers))));
  const Error error = parse_failure(bytes);
  LOCKSTEP_CHECK(!to_string(error.kind).empty());
  return 0;
}
