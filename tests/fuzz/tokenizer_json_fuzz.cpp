// Fuzzes tokenizer.json. Any bytes are accepted or refused; an accepted tokenizer encodes and decodes, and the stream
// decoder agrees with decode.
//
// Input: a document, and after the first NUL byte a text to encode with it.
#include <cstdint>
#include <string_view>

#include "runtime/text/tokenizer.h"
#include "tests/fuzz/round_trip.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t separator = input.find('\0');
  const auto tokenizer = lockstep::text::parse_tokenizer(input.substr(0, separator), "fuzz");
  if (!tokenizer.has_value()) return 0;
  const bool has_text = separator != std::string_view::npos;
  lockstep::fuzz::check_round_trip(*tokenizer.value(), has_text ? input.substr(separator + 1) : "some text\n");
  return 0;
}
