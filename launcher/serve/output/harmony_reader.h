// The reader of gpt-oss: an answer is a row of messages, each with a channel and perhaps a recipient.
//
//   <|channel|>analysis<|message|>…<|end|><|start|>assistant<|channel|>commentary to=functions.f <|message|>{…}<|call|>
//   └───────── header ───────────┘ body     └──────────────────── header ────────────────────────────────┘ body
//
// Source: the harmony response format of gpt-oss.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/serve/output/json_scanner.h"
#include "launcher/serve/output/output_reader.h"
#include "launcher/serve/output/pieces.h"

namespace lockstep::serve {

/// The generation prompt ends inside a header: "<|start|>assistant". Text without a header is content. Channel
/// "analysis" is reasoning; messages to "functions.NAME" are calls where `parts.tools`, and otherwise content.
class HarmonyReader final : public OutputReader {
 public:
  explicit HarmonyReader(ReadParts parts) : parts_(parts) {}

  std::vector<OutputPiece> put(std::string_view text) override;
  std::vector<OutputPiece> finish() override;

 private:
  enum class Body { kContent, kReasoning, kCall, kBehindCall };

  void put_byte(char byte);
  void release(char byte);
  void take_tag(std::string_view tag);
  void begin_body();
  void put_call(char byte);
  void end_message();
  void begin_call();

  ReadParts parts_;
  PieceCollector out_;
  std::string held_;    // what may become a tag
  std::string header_;  // while in a header
  bool in_header_ = true, seen_tag_ = false;
  Body body_ = Body::kContent;
  std::string function_;
  std::string unread_;  // of a call's body, while it has not begun
  std::optional<JsonScanner> arguments_;
};

}  // namespace lockstep::serve
