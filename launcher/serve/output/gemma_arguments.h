// Turns the arguments of FunctionGemma's calls into JSON as they grow.
//
//   {city:<escape>Rome<escape>,days:[1,2]}   ─►   {"city":"Rome","days":[1,2]}
#pragma once

#include <string>

#include "launcher/serve/output/json_scanner.h"
#include "launcher/serve/output/pieces.h"

namespace lockstep::serve {

class GemmaArguments {
 public:
  explicit GemmaArguments(PieceCollector& out) : out_(out) {}

  /// The first byte is "{". On `kInvalid` the byte is not part of the arguments.
  JsonScanner::State put(char byte);

 private:
  enum class Expect { kStart, kKey, kKeyOrClose, kKeyText, kValue, kValueOrClose, kMark, kText, kScalar, kAfter };

  JsonScanner::State put_key(char byte);
  JsonScanner::State put_value(char byte);
  JsonScanner::State put_text(char byte);
  JsonScanner::State put_after(char byte);
  JsonScanner::State open(char bracket);
  JsonScanner::State emit(const std::string& text, Expect next);

  PieceCollector& out_;
  Expect expect_ = Expect::kStart;
  std::string open_;   // brackets
  std::string token_;  // a key or number so far, or what may be "<escape>"
};

}  // namespace lockstep::serve
