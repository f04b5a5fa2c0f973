// Fuzzes the settings beside a tokenizer.json. Any bytes are refused with a message, or the tokenizer encodes and
// decodes, and the template is rendered or refuses.
//
// Input, divided by NUL bytes: tokenizer_config.json, config.json, special_tokens_map.json, added_tokens.json.
#include <cstdint>
#include <string_view>

#include "runtime/text/chat_template.h"
#include "runtime/text/tokenizer.h"
#include "tests/fuzz/directory_of_all.h"
#include "tests/fuzz/input_parts.h"
#include "tests/fuzz/round_trip.h"

namespace {

using namespace lockstep;

constexpr const char* kTokenizer = R"({
    "added_tokens": [{"id": 5, "content": "<x>", "special": true, "normalized": false}],
    "normalizer": {"type": "Prepend", "prepend": "▁"},
    "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": true},
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "▁": 2, "ab": 3, "<unk>": 4}, "merges": ["a b"]}})";

void write_tokenizer(const TemporaryDirectory& model) { model.write("tokenizer.json", kTokenizer); }

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto parts = fuzz::parts_of({reinterpret_cast<const char*>(data), size}, '\0');
  const TemporaryDirectory& model = fuzz::directory_of_all(write_tokenizer);
  const char* const names[] = {"tokenizer_config.json", "config.json", "special_tokens_map.json", "added_tokens.json"};
  for (size_t i = 0; i < std::size(names); ++i) {
    std::filesystem::remove(model.path() / names[i]);
    if (i < parts.size() && !parts[i].empty()) model.write(names[i], parts[i]);
  }
  const auto tokenizer = text::load_tokenizer(model.path());
  if (tokenizer.has_value()) {
    fuzz::check_round_trip(*tokenizer.value(), "ab <x>b<s> <unk>c\n the</s>");
  } else {
    LOCKSTEP_CHECK(!tokenizer.error().message.empty());
  }
  const auto chat = text::load_chat(model.path());
  if (chat.has_value()) (void)text::render_chat(chat.value(), {{"user", "a"}}, {});
  return 0;
}
