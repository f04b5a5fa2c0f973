#include "launcher/serve/output/xml_arguments.h"

#include <string_view>
#include <utility>

namespace lockstep::serve {
namespace {

using State = JsonScanner::State;

constexpr std::string_view kParameter = "<parameter=";
constexpr std::string_view kParameterEnd = "</parameter>", kLineParameterEnd = "\n</parameter>";
constexpr std::string_view kFunctionEnd = "</function>";
constexpr size_t kLongestName = 256;

}  // namespace

void XmlArguments::begin(std::string function) {
  function_ = std::move(function);
  out_.arguments("{");
}

State XmlArguments::put(char byte) {
  switch (expect_) {
    case Expect::kTag: return put_tag(byte);
    case Expect::kName: return put_name(byte);
    case Expect::kValue: break;
  }
  return put_value(byte);
}

State XmlArguments::put_tag(char byte) {
  if (token_.empty() && is_json_space(byte)) return State::kMore;
  token_ += byte;
  if (token_ == kFunctionEnd) {
    out_.arguments("}");
    return State::kComplete;
  }
  if (token_ == kParameter) {
    token_.clear();
    expect_ = Expect::kName;
    return State::kMore;
  }
  return kFunctionEnd.starts_with(token_) || kParameter.starts_with(token_) ? State::kMore : State::kInvalid;
}

State XmlArguments::put_name(char byte) {
  if (byte != '>') {
    token_ += byte;
    return byte == '<' || byte == '\n' || token_.size() > kLongestName ? State::kInvalid : State::kMore;
  }
  const std::string name = std::exchange(token_, {});
  value_types_ = types_.of(function_, name);
  out_.arguments((parameters_++ > 0 ? "," : "") + json_string(name) + ":");
  if (value_types_.is_any_text()) out_.arguments("\"");
  is_first_ = true;
  expect_ = Expect::kValue;
  return State::kMore;
}

/// Text up to the closing tag; what may be the tag is withheld.
State XmlArguments::put_value(char byte) {
  if (std::exchange(is_first_, false) && byte == '\n') return State::kMore;
  token_ += byte;
  while (!kLineParameterEnd.starts_with(token_) && !kParameterEnd.starts_with(token_)) {
    take_value(token_.front());
    token_.erase(0, 1);
  }
  if (token_ == kLineParameterEnd || token_ == kParameterEnd) end_value();
  return State::kMore;
}

void XmlArguments::take_value(char byte) {
  value_types_.is_any_text() ? out_.arguments(json_string_byte(byte)) : void(value_ += byte);
}

void XmlArguments::end_value() {
  out_.arguments(value_types_.is_any_text() ? "\"" : typed_value(value_types_, value_));
  value_.clear();
  token_.clear();
  expect_ = Expect::kTag;
}

}  // namespace lockstep::serve
