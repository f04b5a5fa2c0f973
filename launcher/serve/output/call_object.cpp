#include "launcher/serve/output/call_object.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>

namespace lockstep::serve {
namespace {

using Json = nlohmann::json;
using State = JsonScanner::State;

bool is_arguments(std::string_view key) { return key == "arguments" || key == "parameters"; }

bool is_known(std::string_view key) {
  constexpr std::array<std::string_view, 5> kOthers = {"name", "function", "type", "id", "index"};
  return is_arguments(key) || std::find(kOthers.begin(), kOthers.end(), key) != kOthers.end();
}

/// The string that a JSON text holds; empty: it is no string.
std::string string_of(const std::string& text) {
  const Json value = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  return value.is_string() ? value.get<std::string>() : "";
}

}  // namespace

State CallObject::put(char byte) {
  const size_t depth = scanner_.depth();
  const bool in_string = scanner_.in_string();
  const bool structural = depth == 1 && !in_string;
  if (scanner_.put(byte) == State::kInvalid) return State::kInvalid;
  if (depth == 0) return State::kMore;  // the object's own bracket
  return in_value_ ? put_value(byte, structural, json_escaped(byte, in_string)) : put_key(byte, structural);
}

State CallObject::put_key(char byte, bool structural) {
  if (structural && byte == '}') return complete();
  if (structural && byte == ':') {
    key_ = string_of(token_);
    token_.clear();
    in_value_ = true;
    return is_known(key_) ? State::kMore : State::kInvalid;
  }
  if (!structural || byte == '"') token_ += byte;
  return State::kMore;
}

State CallObject::put_value(char byte, bool structural, const std::string& text) {
  if (structural && (byte == ',' || byte == '}')) {
    if (!take_value()) return State::kInvalid;
    token_.clear();
    in_value_ = streaming_ = false;
    return byte == ',' ? State::kMore : complete();
  }
  if (structural && token_.empty()) {
    const bool blank = byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t';
    if (blank) return State::kMore;
    if (byte == '{' && is_arguments(key_) && !name_.empty() && !begun_) {
      begin();
      streaming_ = true;
    }
  }
  if (streaming_ && ended_) return State::kMore;  // blanks behind the arguments
  if (streaming_) {
    out_.arguments(text);
    token_ = "{";  // not empty
    if (scanner_.depth() == 1) {
      out_.end_call();
      ended_ = true;
    }
    return State::kMore;
  }
  token_ += text;
  return State::kMore;
}

bool CallObject::take_value() {
  if (streaming_) return true;
  if (key_ == "name") {
    if (begun_ || !name_.empty()) return false;
    name_ = string_of(token_);
    return !name_.empty();
  }
  if (key_ == "function") return take_function(token_);
  return is_arguments(key_) ? take_arguments(token_) : true;
}

/// "function": the name, or an object with name and arguments.
bool CallObject::take_function(const std::string& text) {
  const Json function = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (begun_ || !name_.empty()) return false;
  if (function.is_string()) name_ = function.get<std::string>();
  if (function.is_object() && function.contains("name") && function["name"].is_string()) {
    name_ = function["name"].get<std::string>();
    for (const char* key : {"arguments", "parameters"}) {
      if (function.contains(key) && !take_arguments(function[key].dump())) return false;
    }
  }
  return !name_.empty();
}

/// Arguments that were not passed on while they grew.
bool CallObject::take_arguments(const std::string& text) {
  if (begun_ || !arguments_.empty()) return false;
  Json value = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  const bool quoted = value.is_string();
  arguments_ = quoted ? value.get<std::string>() : value.is_null() ? "{}" : text;
  if (quoted) value = Json::parse(arguments_, nullptr, /*allow_exceptions=*/false);
  return value.is_object() || value.is_null();
}

State CallObject::complete() {
  if (begun_) return State::kComplete;
  if (name_.empty() || (arguments_.empty() && place_ == Place::kBare)) return State::kInvalid;
  begin();
  out_.arguments(arguments_.empty() ? "{}" : arguments_);
  out_.end_call();
  ended_ = true;
  return State::kComplete;
}

void CallObject::begin() {
  begun_ = true;
  out_.begin_call(name_);
}

void CallObject::abandon() {
  if (begun_ && !ended_) out_.end_call();
  ended_ = true;
}

}  // namespace lockstep::serve
