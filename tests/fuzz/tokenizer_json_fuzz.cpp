// Fuzzes tokenizer.json. Any bytes are accepted or refused; an accepted tokenizer encodes and decodes, and the stream
// decoder agrees with decode.
//
// Input: a document, and after the first NUL byte a text to encode with it.
#include <cstdint>
#include <string_view>

#include "runtime/text/tokenizer.h"

namespace {

using namespace lockstep::text;

void try_tokenizer(std::string_view document, std::string_view text) {
  const auto tokenizer = parse_tokenizer(document, "fuzz");
  if (!tokenizer.has_value()) return;
  const auto ids = tokenizer.value()->encode(text, SpecialTokens::kAdd);
  if (!ids.has_value()) return;
  std::vector<int32_t> known;
  for (const int32_t id : ids.value()) {
    if (tokenizer.value()->token_of(id)) known.push_back(id);  // a post-processor may name ids that nothing has
  }
  const auto whole = tokenizer.value()->decode(known, SpecialPieces::kKeep);
  if (!whole.has_value()) return;
  StreamDecoder decoder(*tokenizer.value(), SpecialPieces::kKeep);
  std::string streamed;
  for (const int32_t id : known) streamed += decoder.put(id).value();
  streamed += decoder.finish().value();
  if (streamed != whole.value()) __builtin_trap();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t separator = input.find('\0');
  const std::string_view document = input.substr(0, separator);
  try_tokenizer(document, separator == std::string_view::npos ? "some text\n" : input.substr(separator + 1));
  return 0;
}
