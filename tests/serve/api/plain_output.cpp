// A small output folder for a build without the sources of launcher/serve/output: <think> and <tool_call> only.
#include <nlohmann/json.hpp>

#include "launcher/serve/output/output_reader.h"

namespace lockstep::serve {
namespace {

constexpr std::string_view kCall = "<tool_call>", kCallEnd = "</tool_call>", kThinkEnd = "</think>";

/// Withholds everything from a tag's first character on until the tag is whole, and a call until its end.
class PlainReader final : public OutputReader {
 public:
  PlainReader(const OutputFormat& format, ReadParts parts)
      : parts_(parts), is_reasoning_(parts.reasoning && format.begins_in_reasoning) {}

  std::vector<OutputPiece> put(std::string_view text) override {
    held_ += text;
    std::vector<OutputPiece> pieces;
    while (step(pieces)) {
    }
    return pieces;
  }

  std::vector<OutputPiece> finish() override {
    if (held_.empty()) return {};
    return {{.kind = kind(), .text = std::exchange(held_, {})}};
  }

 private:
  OutputPiece::Kind kind() const { return is_reasoning_ ? OutputPiece::Kind::kReasoning : OutputPiece::Kind::kContent; }

  bool step(std::vector<OutputPiece>& pieces) {
    const std::string_view tag = is_reasoning_ ? kThinkEnd : parts_.tools ? kCall : "";
    if (tag.empty()) return pass(pieces, held_.size());
    const size_t at = held_.find('<');
    if (at != 0) return pass(pieces, at == std::string::npos ? held_.size() : at);
    if (held_.size() < tag.size()) return false;
    if (!held_.starts_with(tag)) return pass(pieces, 1);
    if (is_reasoning_) {
      is_reasoning_ = false;
      held_.erase(0, tag.size());
      return true;
    }
    const size_t end = held_.find(kCallEnd);
    if (end == std::string::npos) return false;
    const auto call = nlohmann::ordered_json::parse(held_.substr(tag.size(), end - tag.size()));
    held_.erase(0, end + kCallEnd.size());
    using Kind = OutputPiece::Kind;
    const std::string arguments = call["arguments"].dump();
    const size_t colon = arguments.find(':') + 1;
    pieces.push_back({Kind::kToolBegin, call["name"].get<std::string>(), calls_});
    pieces.push_back({Kind::kToolArguments, arguments.substr(0, colon) + " ", calls_});
    pieces.push_back({Kind::kToolArguments, arguments.substr(colon), calls_});
    pieces.push_back({Kind::kToolEnd, "", calls_++});
    return true;
  }

  bool pass(std::vector<OutputPiece>& pieces, size_t size) {
    if (size == 0) return false;
    pieces.push_back({.kind = kind(), .text = held_.substr(0, size)});
    held_.erase(0, size);
    return !held_.empty();
  }

  ReadParts parts_;
  bool is_reasoning_;
  std::string held_;
  int calls_ = 0;
};

}  // namespace

OutputFormat detect_format(std::string_view source, std::string_view rendered) {
  OutputFormat format;
  if (source.find("<tool_call>") != std::string_view::npos) format.tools = "hermes";
  if (source.find("</think>") != std::string_view::npos) format.reasoning = "<think>";
  format.begins_in_reasoning = rendered.ends_with("<think>\n");
  return format;
}

std::unique_ptr<OutputReader> make_reader(const OutputFormat& format, ReadParts parts) {
  return std::make_unique<PlainReader>(format, parts);
}

Result<std::string> tool_constraint(const OutputFormat&, const std::vector<Tool>& tools, ToolChoice choice,
                                    std::string_view, bool) {
  if (choice == ToolChoice::kAuto) return std::string();
  return R"({"type": "const_string", "value": ")" + tools.front().name + "\"}";
}

}  // namespace lockstep::serve
