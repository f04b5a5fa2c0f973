// Turns the parameters of Qwen3-Coder's calls into JSON as they grow.
//
//   <parameter=city>          ─►  {"city":"Rome","days":3}
//   Rome
//   </parameter>
//   <parameter=days>
//   3
//   </parameter>
//   </function>
#pragma once

#include <string>

#include "launcher/serve/output/json_scanner.h"
#include "launcher/serve/output/parameter_types.h"
#include "launcher/serve/output/pieces.h"

namespace lockstep::serve {

/// A line break behind a parameter's opening tag and one before its closing tag are no part of the value. Text that
/// fits whatever it is passes on at once; other values at their end.
class XmlArguments {
 public:
  XmlArguments(PieceCollector& out, const ParameterTypes& types) : out_(out), types_(types) {}

  /// The name of the function was read.
  void begin(std::string function);
  /// `kComplete` with the last byte of "</function>". On `kInvalid` the byte is not part of the arguments.
  JsonScanner::State put(char byte);

 private:
  enum class Expect { kTag, kName, kValue };

  JsonScanner::State put_tag(char byte);
  JsonScanner::State put_name(char byte);
  JsonScanner::State put_value(char byte);
  void take_value(char byte);
  void end_value();

  PieceCollector& out_;
  const ParameterTypes& types_;
  Expect expect_ = Expect::kTag;
  std::string function_;
  std::string token_;  // a tag or a name so far, or what may be a closing tag
  std::string value_;  // that did not pass on
  ValueTypes value_types_;
  int parameters_ = 0;
  bool is_first_ = false;  // byte of a value
};

}  // namespace lockstep::serve
