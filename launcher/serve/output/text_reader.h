// The reader of all formats in which calls and reasoning stand between texts.
//
//              ┌── opening tag ──► reasoning ── closing tag ──┐
//   content ◄──┤                                              ├──► content
//              └── opening ──────► CallSection ── end ────────┘
//                                      └─ no call: its text is read again as content
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/serve/output/call_section.h"
#include "launcher/serve/output/output_reader.h"
#include "launcher/serve/output/parameter_types.h"
#include "launcher/serve/output/pieces.h"

namespace lockstep::serve {

/// Blanks around reasoning and between calls are no content.
class TextReader final : public OutputReader {
 public:
  /// `syntax` is null for a format without calls.
  TextReader(const OutputFormat& format, const CallSyntax* syntax, ReadParts parts);

  std::vector<OutputPiece> put(std::string_view text) override;
  std::vector<OutputPiece> finish() override;

 private:
  enum class Before { kStart, kReasoning, kCall };  // what precedes the text
  enum class Action { kNone, kWait, kReasoningBegins, kReasoningEnds, kCallBegins, kDrop };

  void put_byte(char byte);
  void put_text(char byte);
  void put_call(char byte);
  Action match() const;
  bool is_behind_call() const { return before_ == Before::kCall && !text_began_; }
  bool is_within_closing() const;
  void perform(Action action);
  void release(char byte);
  void release_content(char byte);
  bool begins_bare_call(char byte) const;
  void read_again();
  void content_begins(std::string_view text);
  void begin_text(Before before);

  PieceCollector out_;
  const CallSyntax* syntax_;
  const ParameterTypes types_;
  bool reads_calls_;
  std::string reasoning_begin_, reasoning_end_;
  bool in_reasoning_ = false;
  Before before_ = Before::kStart;
  bool text_began_ = false;             // something that is not blank
  std::string blanks_;                  // withheld: before a text, or at the end of reasoning
  std::string held_;                    // what may become a tag
  std::optional<CallSection> section_;  // while a call is read
};

}  // namespace lockstep::serve
