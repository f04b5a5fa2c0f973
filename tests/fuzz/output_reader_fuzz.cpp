// Fuzzes the readers of model text. Any bytes are read; the pieces do not depend on how the text is cut, and calls
// begin and end in turn.
//
// Input: a byte that chooses the format, and the text.
#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "launcher/serve/output/output_reader.h"

namespace {

using namespace lockstep::serve;
using Kind = OutputPiece::Kind;

constexpr std::array<const char*, 9> kFormats = {"hermes",   "llama3", "mistral", "mistral_args", "phi",
                                                 "deepseek", "gemma",  "harmony", "qwen_xml"};

void append(std::vector<OutputPiece>& joined, const std::vector<OutputPiece>& pieces) {
  for (const OutputPiece& piece : pieces) {
    const bool joins = !joined.empty() && joined.back().kind == piece.kind && piece.kind != Kind::kToolBegin &&
                       piece.kind != Kind::kToolEnd;
    if (joins) {
      joined.back().text += piece.text;
    } else {
      joined.push_back(piece);
    }
  }
}

std::vector<OutputPiece> read(const OutputFormat& format, std::string_view text, size_t step) {
  const Tool tool{.name = "f", .parameters = R"({"properties": {"days": {"type": ["integer", "array"]}}})"};
  const auto reader = make_reader(format, {.tools = true, .reasoning = true, .schemas = {tool}});
  std::vector<OutputPiece> joined;
  for (size_t at = 0; at < text.size(); at += step) append(joined, reader->put(text.substr(at, step)));
  append(joined, reader->finish());
  return joined;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const OutputFormat format{.tools = kFormats[(data[0] + 256 - '0') % kFormats.size()],
                            .reasoning = "<think>",
                            .begins_in_reasoning = data[0] > 63};
  const std::vector<OutputPiece> whole = read(format, text, size);
  if (read(format, text, 1) != whole || read(format, text, 3) != whole) __builtin_trap();
  bool open = false;
  int calls = 0;
  for (const OutputPiece& piece : whole) {
    if (piece.kind == Kind::kToolBegin && (open || piece.tool != calls || piece.text.empty())) __builtin_trap();
    if (piece.kind == Kind::kToolArguments && (!open || piece.tool != calls)) __builtin_trap();
    if (piece.kind == Kind::kToolEnd && (!open || piece.tool != calls++)) __builtin_trap();
    if (piece.kind == Kind::kToolBegin) open = true;
    if (piece.kind == Kind::kToolEnd) open = false;
  }
  if (open) __builtin_trap();
  return 0;
}
