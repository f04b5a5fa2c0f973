// Collects the pieces of an answer; neighbours of one kind become one piece.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "launcher/serve/output/output_reader.h"

namespace lockstep::serve {

/// The pieces since the last `take`, and the number of the current call.
class PieceCollector {
 public:
  void content(std::string_view text) { add(OutputPiece::Kind::kContent, text, 0); }
  void reasoning(std::string_view text) { add(OutputPiece::Kind::kReasoning, text, 0); }

  void begin_call(std::string_view name) {
    pieces_.push_back({OutputPiece::Kind::kToolBegin, std::string(name), ++call_});
  }
  void arguments(std::string_view text) { add(OutputPiece::Kind::kToolArguments, text, call_); }
  void end_call() { pieces_.push_back({OutputPiece::Kind::kToolEnd, "", call_}); }

  std::vector<OutputPiece> take() { return std::exchange(pieces_, {}); }

 private:
  void add(OutputPiece::Kind kind, std::string_view text, int call) {
    if (text.empty()) return;
    if (pieces_.empty() || pieces_.back().kind != kind) pieces_.push_back({kind, "", call});
    pieces_.back().text += text;
  }

  std::vector<OutputPiece> pieces_;
  int call_ = -1;
};

}  // namespace lockstep::serve
