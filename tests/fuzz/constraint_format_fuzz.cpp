// Fuzzes the checks of constraints: JSON texts of schemas, grammars and tags, and expressions. What passes keeps its
// form on the way to the process that compiles it.
#include <cstdint>
#include <string_view>

#include "runtime/constraint/constraint_wire.h"
#include "runtime/constraint/format.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lockstep::constraint;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  static_cast<void>(check_regex(text));
  const auto format = check_format(text);
  if (!format.has_value()) return 0;
  const std::string bytes = to_bytes(format.value());
  const auto read = parse_format(bytes);
  if (!read || read->structural_tag != format.value().structural_tag || read->literals != format.value().literals) {
    __builtin_trap();
  }
  if (parse_format(bytes.substr(0, bytes.size() - 1)) || parse_format(bytes + "x")) __builtin_trap();
  return 0;
}
