// Fuzzes chat templates. Any bytes are accepted or refused; an accepted template renders or fails, within the bounds of
// templates.
#include <cstdint>
#include <string_view>

#include "runtime/text/chat_template.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lockstep::text;
  const auto parsed = parse_chat_template({reinterpret_cast<const char*>(data), size});
  if (!parsed.has_value()) return 0;
  ChatOptions options;
  options.bos_token = "<s>";
  options.variables_json = R"({"tools": [{"name": "f", "n": [1, 2.5, null]}]})";
  const auto rendered = parsed.value()->render({{"system", "S"}, {"user", " U "}, {"assistant", "A"}}, options);
  return rendered.has_value() && rendered.value().size() > (size_t{64} << 20) ? 1 : 0;
}
