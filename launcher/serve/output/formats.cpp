#include "launcher/serve/output/formats.h"

#include <array>
#include <memory>
#include <utility>

#include "launcher/serve/output/call_syntax.h"
#include "launcher/serve/output/harmony_reader.h"
#include "launcher/serve/output/output_reader.h"
#include "launcher/serve/output/text_reader.h"

namespace lockstep::serve {
namespace {

/// Text of a chat template, and the format of the models that have it. The first row that fits decides.
constexpr std::array<std::pair<std::string_view, std::string_view>, 13> kSigns = {{
    {"<|channel|>", kHarmony},
    {"<start_function_call>", "gemma"},
    {"[ARGS]", "mistral_args"},
    {"[TOOL_CALLS]", "mistral"},
    {"<｜tool▁calls▁begin｜>", "deepseek"},
    {"<|tool_call|>", "phi"},
    {"<|tool|>", "phi"},
    {"<parameter=", "qwen_xml"},
    {"<function=", ""},  // JSON between tags of the function's name
    {"<tool_call>", "hermes"},
    {"<|python_tag|>", "llama3"},
    {"\"parameters\": ", "llama3"},  // Llama 3.2
    {"<|im_start|>", "hermes"},      // SmolLM2, whose model card has the calls that its template lacks
}};

std::string tool_format(std::string_view source) {
  for (const auto& [sign, format] : kSigns) {
    if (source.find(sign) != std::string_view::npos) return std::string(format);
  }
  return "";
}

std::string reasoning_tag(std::string_view source) {
  for (const std::string_view tag : {"<|channel|>analysis", "[THINK]", "<think>"}) {
    if (source.find(tag.substr(0, tag.find("analysis"))) != std::string_view::npos) return std::string(tag);
  }
  return "";
}

/// Passes all text on.
class PlainReader final : public OutputReader {
 public:
  std::vector<OutputPiece> put(std::string_view text) override {
    if (text.empty()) return {};
    return {{OutputPiece::Kind::kContent, std::string(text), 0}};
  }
  std::vector<OutputPiece> finish() override { return {}; }
};

}  // namespace

std::string closing_tag(std::string_view opening) {
  std::string tag(opening);
  return tag.insert(1, "/");
}

OutputFormat detect_format(std::string_view template_source, std::string_view rendered) {
  OutputFormat format{.tools = tool_format(template_source), .reasoning = reasoning_tag(template_source)};
  const std::string_view end = rendered.substr(0, rendered.find_last_not_of(" \n\r\t") + 1);
  format.begins_in_reasoning = !format.reasoning.empty() && end.ends_with(format.reasoning);
  return format;
}

std::unique_ptr<OutputReader> make_reader(const OutputFormat& format, ReadParts parts) {
  if (!parts.tools && !parts.reasoning) return std::make_unique<PlainReader>();
  if (format.tools == kHarmony) return std::make_unique<HarmonyReader>(parts);
  const CallSyntax* syntax = find_call_syntax(format.tools);
  if (syntax == nullptr && format.reasoning.empty()) return std::make_unique<PlainReader>();
  return std::make_unique<TextReader>(format, syntax, parts);
}

}  // namespace lockstep::serve
